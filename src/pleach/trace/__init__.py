"""Traces: records of a run, in one format for the simulator and real processes, and the oracle that judges them.

records.py    one row of a trace, and the text form of attributes
recorder.py   collects records during a run
order.py      the total order of a run's records
store.py      traces on disk, as runs of a lake
parquet.py    … one Parquet file as records, of our schema or a similar one
oracle.py     the rules: lost, duplicate, spurious, fifo, causal
ledger.py     … the state of the oracle per client, subscription and event
first_pass.py … facts about the whole trace that the oracle needs beforehand
candidates.py … which filters match an event
verdict.py    the result
explain.py    a violation with the records around it, as text

Imports lake/ and core/events/, and no world.
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
