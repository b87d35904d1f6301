"""The oracle on Spark: the rules of trace/oracle.py as joins and window functions, over any number of runs at once.

    files ─ sources ─ inspection ─ sequence ──► records, each with its index in the total order of its run
                                                   │
              overview      subscriptions ◄────────┼────────► publications
                  │               └───────────┐    ▼     ┌─────────┘
                  │                           deliveries
                  ▼                ┌──────────────┼───────────────┐
               verdicts ◄──── spurious        duplicate, fifo   causality, losses

Both oracles give the same verdicts, violation by violation (tests/spark/test_audit_agrees.py); where a rule needs what
a join cannot do, records are passed in order to functions of the reference. Only violations grow with
the trace on the driver.

sources.py        the files; every record with its position
inspection.py     which runs lie in their total order already
sequence.py       indices; the others are sorted
overview.py       drains, faults, filters, on the driver
subscriptions.py  one row per subscription
publications.py   one row per attempt to publish, with the filters that match
deliveries.py     one row per delivery, beside its publication; spurious, duplicate, fifo
causality.py      causal order: a fold over what can matter
losses.py         events that were owed and not delivered
excused.py        violations within faults that suspend the checks
findings.py       violations in a common form
verdicts.py       the verdict on each run, and explanations
job.py            the whole audit
dataframes.py     rows through `mapInArrow`, and checkpoints
"""
