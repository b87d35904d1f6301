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

OF_RUN = [RecordKind.DRAIN.value, RecordKind.FAULT.value]


def records_around(records: DataFrame, run: str, violations: Sequence[Violation]) -> DataFrame:
    """The records that can have to do with these violations of a run."""
    events = sorted({event for one in violations for event in (one.event, one.other) if event})
    clients = sorted({one.client for one in violations})
    of_client = f.col("who").isin(clients) & f.col("kind").isin([*sorted(OF_SUBSCRIPTIONS), RecordKind.MOVE.value])
    chosen = f.col("event").isin(events) | of_client | f.col("kind").isin(OF_RUN)
    return records.where((f.col("run") == run) & chosen).orderBy("index")


def explain_on_spark(records: DataFrame, verdict: Verdict, violations_max: int) -> str:
    """What `explain` says of a verdict, without the whole trace in memory."""
    shown = verdict.violations[:violations_max]
    rows = records_around(records, verdict.run, shown).collect()
    near = [Record(*(row[name] for name in COLUMNS)) for row in rows]
    places = {row["index"]: place for place, row in enumerate(rows)}
    moved = [msgspec.structs.replace(one, index=places[one.index]) for one in shown]
    rest = verdict.violations[violations_max:]
    return explain(msgspec.structs.replace(verdict, violations=(*moved, *rest)), near, violations_max)
