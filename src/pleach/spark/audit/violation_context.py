"""Violations with the records around them: as a table, and as the lines that the reference gives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pleach.trace.explain import OF_SUBSCRIPTIONS, explain
from pleach.trace.parquet import COLUMNS
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Verdict, Violation

OF_EVENT = [RecordKind.PUBLISH.value, RecordKind.PUBLISH_ACK.value, RecordKind.PUBLISH_FAIL.value]
SHOWN = ["index", "at", "node", "kind", "event", "subscription", "filter", "attributes", "detail"]
VIOLATION_COLUMNS = {
    "run": "string",
    "rule": "string",
    "client": "string",
    "event": "string",
    "reason": "string",
    "index": "int64",
    "at": "double",
    "other": "string",
}
OF_RUN = [RecordKind.DRAIN.value, RecordKind.FAULT.value]


def records_around(records: DataFrame, run: str, violations: Sequence[Violation]) -> DataFrame:
    """The records that can have to do with these violations of a run."""
    events = sorted({event for one in violations for event in (one.event, one.other) if event})
    clients = sorted({one.client for one in violations})
    of_client = f.col("who").isin(clients) & f.col("kind").isin([*sorted(OF_SUBSCRIPTIONS), RecordKind.MOVE.value])
    chosen = f.col("event").isin(events) | of_client | f.col("kind").isin(OF_RUN)
    return records.where((f.col("run") == run) & chosen).orderBy("index")


def violations_table(records: DataFrame, verdicts: Sequence[Verdict]) -> DataFrame:
    """One row per violation; `around` has the records of its events and of the client's subscriptions, in order.

    Those are the publication and its answers, and what became of both events at the client.
    """
    rows = [(verdict.run, *msgspec.structs.astuple(one)) for verdict in verdicts for one in verdict.violations]
    schema = (
        "run string, rule string, client string, event string, reason string, index bigint, at double, other string"
    )
    found = records.sparkSession.createDataFrame(rows, schema)
    named = found.withColumn("its_event", f.explode(f.array_distinct(f.array("event", "other")))).where(
        "its_event != ''"
    )
    near = records.select(
        f.col("run").alias("its_run"), "who", f.struct(*SHOWN).alias("record"), f.col("event").alias("of_event")
    )
    kind = f.col("record.kind")
    its_run, its_client = f.col("run") == f.col("its_run"), f.col("who") == f.col("client")
    of_events = named.join(near, its_run & (f.col("its_event") == f.col("of_event"))).where(
        kind.isin(OF_EVENT) | ((kind == RecordKind.DELIVER.value) & its_client)
    )
    of_client = found.join(near.where(kind.isin(sorted(OF_SUBSCRIPTIONS))), its_run & its_client)
    together = of_events.select(*VIOLATION_COLUMNS, "record").union(of_client.select(*VIOLATION_COLUMNS, "record"))
    around = together.groupBy(*VIOLATION_COLUMNS).agg(f.sort_array(f.collect_set("record")).alias("around"))
    return found.join(around, list(VIOLATION_COLUMNS), "left")


def explain_on_spark(records: DataFrame, verdict: Verdict, violations_max: int) -> str:
    """What `explain` says of a verdict, without the whole trace in memory."""
    shown = verdict.violations[:violations_max]
    rows = records_around(records, verdict.run, shown).collect()
    near = [Record(*(row[name] for name in COLUMNS)) for row in rows]
    places = {row["index"]: place for place, row in enumerate(rows)}
    moved = [msgspec.structs.replace(one, index=places[one.index]) for one in shown]
    rest = verdict.violations[violations_max:]
    return explain(msgspec.structs.replace(verdict, violations=(*moved, *rest)), near, violations_max)
