"""Losses with brokers that never returned, set apart as the reference does (trace/broker_losses.py).

Which losses there are is known by now, and they are few. So what the records say of their events, and of who was whose
neighbour when a broker died, is put together on the driver, by the reference's own rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pleach.errors import SparkError
from pleach.trace.broker_losses import DIED, GIVEN_UP, HELD, LINKED, Deaths, set_apart
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Rule, Verdict

TELLING_MAX = 5_000_000  # records on the driver: per death each node of the network, and each copy of a lost event


def without_departures(spark: SparkSession, records: DataFrame, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, in the same order."""
    lost = sorted({(v.run, each.event) for v in verdicts for each in v.violations if each.rule is Rule.LOST})
    if not lost:
        return list(verdicts)
    rows = _telling(records, spark.createDataFrame(lost, "run string, event string")).limit(TELLING_MAX + 1).collect()
    if len(rows) > TELLING_MAX:
        raise SparkError(f"more than {TELLING_MAX:,} records tell of deaths: judge fewer runs at a time")
    deaths = {run: Deaths.read(told) for run, told in _by_run(rows).items()}
    return [set_apart(deaths[v.run], v) if v.run in deaths else v for v in verdicts]


def _telling(records: DataFrame, lost: DataFrame) -> DataFrame:
    """What became of copies of lost events, and the trees in which brokers died."""
    kind, detail = f.col("kind"), f.col("detail")
    is_state, is_fault = kind == RecordKind.STATE.value, kind == RecordKind.FAULT.value
    of_event = (is_fault & (detail == DIED)) | (is_state & ((detail == HELD) | detail.startswith(GIVEN_UP)))
    of_tree = is_state & (f.col("peer") != "") & detail.startswith(LINKED)
    columns = ("run", "event", "index", "at", "node", "kind", "peer", "detail")
    runs = lost.select("run").distinct()
    copies = records.where(of_event).join(f.broadcast(lost), ["run", "event"], "left_semi").select(*columns)
    return copies.union(records.where(of_tree).join(f.broadcast(runs), "run", "left_semi").select(*columns))


def _by_run(rows: Iterable[Row]) -> dict[str, list[tuple[int, Record]]]:
    by_run: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["index"]):
        record = Record(row.run, row.at, row.node, 0, row.kind, event=row.event, peer=row.peer, detail=row.detail)
        by_run[row.run].append((row["index"], record))
    return by_run
