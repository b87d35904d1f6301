"""Traces: what happened in a run, written the same way by every world, and the oracle that judges it.

records.py    one row of a trace, and the text form of attributes
recorder.py   collects records while a run goes on
order.py      the total order of a run's records
store.py      traces on disk, as runs of a lake
parquet.py    … one Parquet file as records, ours or another's
oracle.py     the rules: lost, duplicate, spurious, fifo, causal
ledger.py     … what the oracle keeps per client, subscription and event while it reads
survey.py     … what it must know of the whole trace beforehand
candidates.py … which filters match an event
verdict.py    what it answers
explain.py    a violation with the records around it, for people
"""

from pleach.trace.explain import explain
from pleach.trace.oracle import judge
from pleach.trace.order import total_order
from pleach.trace.recorder import Recorder
from pleach.trace.records import NETWORK, Record, RecordKind, attributes_from, attributes_text
from pleach.trace.store import read_traces, write_trace
from pleach.trace.verdict import Ordering, Rule, Verdict, VerdictOutcome, Violation

__all__ = [
    "NETWORK",
    "Ordering",
    "Record",
    "RecordKind",
    "Recorder",
    "Rule",
    "Verdict",
    "VerdictOutcome",
    "Violation",
    "attributes_from",
    "attributes_text",
    "explain",
    "judge",
    "read_traces",
    "total_order",
    "write_trace",
]
