"""Violations that are excused: within faults that suspend the checks, and losses with brokers that died for good.

The former are set aside and counted. The latter follow the rule of the reference (trace/broker_losses.py): losses are
known at this step and few, so the records of their events, and of the neighbours of dead brokers, are collected on the
driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pleach.errors import SparkError
from pleach.spark.audit.overview import RunOverview
from pleach.trace.broker_losses import DIED, GIVEN_UP, HELD, LINKED, Deaths, set_apart
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Rule, Verdict

DEATH_RECORDS_MAX = 5_000_000  # on the driver


def without_departures(spark: SparkSession, records: DataFrame, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, in the same order."""
    lost = sorted({(v.run, each.event) for v in verdicts for each in v.violations if each.rule is Rule.LOST})
    if not lost:
        return list(verdicts)
    found = _death_records(records, spark.createDataFrame(lost, "run string, event string"))
    rows = found.limit(DEATH_RECORDS_MAX + 1).collect()
    if len(rows) > DEATH_RECORDS_MAX:
        raise SparkError(f"more than {DEATH_RECORDS_MAX:,} records of deaths: judge fewer runs at a time")
    deaths = {run: Deaths.read(told) for run, told in _by_run(rows).items()}
    return [set_apart(deaths[v.run], v) if v.run in deaths else v for v in verdicts]


def _death_records(records: DataFrame, lost: DataFrame) -> DataFrame:
    """Records of copies of lost events, and of the trees in which brokers died."""
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


def suspended(spark: SparkSession, found: DataFrame, known: Mapping[str, RunOverview]) -> DataFrame:
    """The findings with a column `set_aside`."""
    rows = [
        (run, one.start, one.end, one.flight) for run, overview in known.items() for one in overview.survey.suspensions
    ]
    if not rows:
        return found.withColumn("set_aside", f.expr("false"))
    faults = spark.createDataFrame(rows, "run string, start double, end double, flight double")
    lost = f.col("rule") == Rule.LOST.value
    start, end = f.col("start"), f.col("end")
    published_then = f.coalesce(f.col("published_at").between(start, end), f.expr("false"))
    covers = f.col("at").between(start, end) | published_then
    may_lose = (f.col("published_at") <= end) & (f.col("accepted_at") >= start - f.col("flight"))
    hit = found.join(f.broadcast(faults), "run").where(f.when(lost, may_lose).otherwise(covers))
    keys = ["run", "rule", "client", "index"]
    aside = hit.select(*keys).distinct().withColumn("set_aside", f.expr("true"))
    return found.join(aside, keys, "left").fillna(value={"set_aside": False})
