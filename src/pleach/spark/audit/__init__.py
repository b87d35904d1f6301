"""The oracle on Spark: the rules of trace/oracle.py as joins and window functions, over any number of runs at once.

    files ─ sources ─ inspection ─ sequence ──► records, each with its index in the total order of its run
                                                   │
              overview      subscriptions ◄────────┼────────► publications
                  │               └───────────┐    ▼     ┌─────────┘
                  │                           deliveries
                  ▼                ┌──────────────┼───────────────┐
               verdicts ◄──── spurious        duplicate, fifo   causality, losses

Both oracles give the same verdicts, violation by violation (tests/spark/test_audit_agrees.py); where a rule needs what
a join cannot do, records pass by in order through the functions of the reference itself. Nothing grows with the trace
on the driver but the violations.

sources.py        the files, ours or another's; every record with its place
inspection.py     which runs lie in their total order already
sequence.py       indices; the others are sorted
overview.py       drains, faults, filters: small, on the driver
subscriptions.py  one row per subscription
publications.py   one row per attempt to publish, with the filters that match
deliveries.py     one row per delivery, beside its publication; spurious, duplicate, fifo
respelling.py     attributes that are written another way, or are others
causality.py      causal order: a fold over what can matter
losses.py         what was owed and not got
suspensions.py    what faults excuse
findings.py       the common form of what the rules find
verdicts.py       … of each run, as the reference would say it
job.py            all of it, in order
around.py         a violation with the records around it
batches.py        rows through `mapInArrow`
checkpoints.py    results between two steps
"""
