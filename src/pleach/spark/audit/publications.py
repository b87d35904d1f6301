"""Publications: one row per attempt to publish an event, with its position in its publisher's order and its result.

publish ── publish_fail ── publish ── publish_ack          two attempts of one id:
│ since = none … until ────│ since … until = none           records in between belong to the first
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pleach.core.events.event import EventId
from pleach.errors import EventError, TraceError
from pleach.spark.audit.dataframes import batches_of, rows_of
from pleach.spark.lake import spark_schema
from pleach.trace.candidates import Candidates
from pleach.trace.records import RecordKind

ALWAYS = 1 << 62  # an index above all others
SHIFT = 1 << 63  # ids count up to 10**19 - 1: too far for a bigint, unless it starts below zero

READ = ["run", "index", "at", "event", "client", "attributes"]
COLUMNS = {
    "run": "string",
    "index": "int64",
    "at": "double",
    "event": "string",
    "attributes": "string",
    "publisher": "string",
    "incarnation": "int64",
    "sequence": "int64",
    "matching": "list<int64>",  # filters that match it, by number
    "refusal": "string",
    "step": "int64",  # of several things wrong with one record the reference names that of the first step
}
ID_STEP, CLIENT_STEP, TWICE_STEP, ATTRIBUTES_STEP = range(4)


class Filters:
    """The filters of all runs, numbered, and which run has which."""

    def __init__(self, by_run: Mapping[str, Sequence[str]]) -> None:
        self.by_run = {run: tuple(sorted(texts)) for run, texts in by_run.items()}
        self.numbers = {text: number for number, text in enumerate(sorted({t for ts in by_run.values() for t in ts}))}


class _Matcher:
    """Which filters of a run match; runs with the same filters share one."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._candidates: dict[tuple[str, ...], Candidates] = {}
        self._numbers: dict[frozenset[str], list[int]] = {}

    def matching(self, run: str, attributes: str) -> list[int]:
        texts = self._filters.by_run.get(run, ())
        candidates = self._candidates.get(texts)
        if candidates is None:
            candidates = self._candidates[texts] = Candidates(texts)
        found = candidates.matching(attributes)
        numbers = self._numbers.get(found)
        if numbers is None:
            numbers = self._numbers[found] = sorted(self._filters.numbers[text] for text in found)
        return numbers


def publications(spark: SparkSession, records: DataFrame, filters: Filters) -> DataFrame:
    """One row per `publish` record, read: who, which, matched by what, or why it cannot be judged."""
    shared = spark.sparkContext.broadcast(filters)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        matcher = _Matcher(shared.value)
        return batches_of((_read(row, matcher) for row in rows_of(batches)), COLUMNS)

    published = records.where(f.col("kind") == RecordKind.PUBLISH.value).select(*READ)
    return published.mapInArrow(read, spark_schema(COLUMNS))


def _read(row: tuple[Any, ...], matcher: _Matcher) -> tuple[Any, ...]:
    run, index, at, event, client, attributes = row
    known: tuple[Any, ...] = (run, index, at, event, attributes)
    try:
        publisher, incarnation, sequence = EventId.parse(event)
    except EventError as error:
        return (*known, "", 0, 0, [], str(error), ID_STEP)
    known = (*known, publisher, incarnation - SHIFT, sequence - SHIFT)
    if client not in ("", publisher):
        refusal = f"record {index}: client {client!r} publishes {event}, an id of another client"
        return (*known, [], refusal, CLIENT_STEP)
    try:
        return (*known, matcher.matching(run, attributes), "", ATTRIBUTES_STEP)
    except TraceError as error:
        return (*known, [], str(error), ATTRIBUTES_STEP)


def attempts(published: DataFrame, records: DataFrame) -> DataFrame:
    """Publications with what became of them, and answers to none (`attempt` is null)."""
    answers = records.where(f.col("kind").isin(RecordKind.PUBLISH_ACK.value, RecordKind.PUBLISH_FAIL.value))
    together = published.withColumn("kind", f.lit(RecordKind.PUBLISH.value)).unionByName(
        answers.select("run", "event", "index", "at", "kind"), allowMissingColumns=True
    )
    in_order = Window.partitionBy("run", "event").orderBy("index")
    of_attempt = Window.partitionBy("run", "event", "attempt")
    is_publication = f.col("kind") == RecordKind.PUBLISH.value
    return (
        together.withColumn("attempt", f.last(f.when(is_publication, f.col("index")), ignorenulls=True).over(in_order))
        .withColumn("acknowledged", _first(RecordKind.PUBLISH_ACK).over(of_attempt))
        .withColumn("acknowledged_at", _first(RecordKind.PUBLISH_ACK, "at").over(of_attempt))
        .withColumn("failed", _first(RecordKind.PUBLISH_FAIL).over(of_attempt))
        .where(is_publication | f.col("attempt").isNull())
        .withColumn("until", f.coalesce(f.lead("attempt").over(in_order), f.lit(ALWAYS)))
        .withColumn("before", f.lag("attempt").over(in_order))
        .withColumn("failed_before", f.lag("failed").over(in_order))
        .withColumn("since", f.when(f.col("before").isNull(), f.lit(-1)).otherwise(f.col("index")))
    )


def _first(kind: RecordKind, column: str = "index") -> Any:
    return f.min(f.when(f.col("kind") == kind.value, f.col(column)))


def refused_publications(tried: DataFrame) -> DataFrame:
    """What cannot be judged about publications: run, index, step, refusal."""
    event, both = f.col("event"), f.col("acknowledged").isNotNull() & f.col("failed").isNotNull()
    too_late = f.greatest("acknowledged", "failed")
    contradiction = f.when(f.col("failed") < f.col("acknowledged"), " is acknowledged after it failed").otherwise(
        " fails after it was acknowledged"
    )
    twice = f.col("before").isNotNull() & f.col("failed_before").isNull()
    unread = tried.where(f.col("refusal") != "").select("run", "index", "step", "refusal")
    published_twice = tried.where(twice).select(
        "run",
        "index",
        f.lit(TWICE_STEP).cast("bigint").alias("step"),
        f.concat(f.lit("record "), "index", f.lit(": "), event, f.lit(" is published twice; was a file read twice?")),
    )
    contradictory = tried.where(both).select(
        "run",
        too_late,
        f.lit(ID_STEP).cast("bigint"),
        f.concat(f.lit("record "), too_late, f.lit(": "), event, contradiction),
    )
    return unread.union(published_twice).union(contradictory)
