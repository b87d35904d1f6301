"""Deliveries joined with their publications, and their violations: spurious, altered, duplicate, fifo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.dataframes import batches_of, kept, rows_of
from pleach.spark.audit.findings import Cause, findings
from pleach.spark.lake import spark_schema
from pleach.trace.oracle import altered
from pleach.trace.records import RecordKind
from pleach.trace.verdict import Rule


def deliveries(records: DataFrame, tried: DataFrame) -> DataFrame:
    """One row per `deliver` record.

    `published` is the index of its publication, null where there was none before it; `real` says that the network had
    that event to give. `sent` and `came` are its attributes where they are spelt differently, else null.
    """
    taken = records.where(f.col("kind") == RecordKind.DELIVER.value).select(
        "run", "event", "index", "at", f.col("who").alias("client"), f.col("attributes").alias("came")
    )
    given = tried.where(f.col("attempt").isNotNull()).select(
        f.col("run").alias("its_run"),
        f.col("event").alias("its_event"),
        "since",
        "until",
        f.col("index").alias("published"),
        f.col("at").alias("published_at"),
        f.col("attributes").alias("sent"),
        "publisher",
        "incarnation",
        "sequence",
        "matching",
        "failed",
    )
    same = (f.col("run") == f.col("its_run")) & (f.col("event") == f.col("its_event"))
    meanwhile = (f.col("index") >= f.col("since")) & (f.col("index") < f.col("until"))
    joined = taken.join(given.hint("shuffle_hash"), same & meanwhile, "left")
    differs = (f.col("came") != "") & (f.col("came") != f.col("sent"))
    return (
        joined.withColumn("early", f.col("index") < f.col("published"))
        .withColumn("failed", f.coalesce(f.col("failed") < f.col("index"), f.lit(False)))  # noqa: FBT003 a literal
        .withColumn("real", f.col("published").isNotNull() & ~f.col("early") & ~f.col("failed"))
        .withColumn("came", f.when(differs & f.col("real"), f.col("came")))
        .withColumn("sent", f.when(differs & f.col("real"), f.col("sent")))
        .withColumn("published_at", f.when(~f.col("early"), f.col("published_at")))
        .drop("its_run", "its_event", "since", "until")
    )


def unreal(delivered: DataFrame) -> DataFrame:
    """Spurious: events that do not exist, or not yet, or no longer."""
    cause = (
        f.when(f.col("published").isNull(), Cause.NEVER_PUBLISHED)
        .when(f.col("early"), Cause.PUBLISHED_LATER)
        .otherwise(f.lit(Cause.FAILED))
    )
    return findings(delivered.where(~f.col("real")), Rule.SPURIOUS, cause)


def wanted_by(delivered: DataFrame, subscribed: DataFrame) -> Column:
    """That a subscription of the client, open at the time, matches the event."""
    taken, asked = delivered, subscribed
    return (
        (taken["run"] == asked["run"])
        & (taken["client"] == asked["client"])
        & (asked["asked"] < taken["index"])
        & (taken["index"] < asked["over"])
        & (asked["own"] | (taken["publisher"] != asked["client"]))
        & f.array_contains(taken["matching"], asked["number"])
    )


def unwanted(delivered: DataFrame, subscribed: DataFrame) -> DataFrame:
    """Spurious: real events that no subscription of the client matches."""
    real = delivered.where(f.col("real"))
    left_over = real.join(f.broadcast(subscribed), wanted_by(real, subscribed), "left_anti")
    return findings(left_over, Rule.SPURIOUS, f.lit(Cause.NOT_SUBSCRIBED))


def suspects(delivered: DataFrame) -> DataFrame:
    """Real deliveries whose event is not above all that the client had got of the publisher: `highest` is that event.

    Duplicates and breaches of FIFO are among them. A duplicate never is the highest for the first time, so that which
    is which can be left to a look at these few.
    """
    order = Window.partitionBy("run", "client", "publisher").orderBy("index")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    mark = f.struct("incarnation", "sequence", "event")
    seen = delivered.where(f.col("real")).withColumn("top", f.max(mark).over(earlier))
    below = (f.col("incarnation") < f.col("top.incarnation")) | (
        (f.col("incarnation") == f.col("top.incarnation")) & (f.col("sequence") <= f.col("top.sequence"))
    )
    level = (f.col("incarnation") == f.col("top.incarnation")) & (f.col("sequence") == f.col("top.sequence"))
    return seen.where(below).select(
        "run",
        "index",
        "at",
        "client",
        "event",
        "publisher",
        "published_at",
        level.alias("level"),
        f.col("top.event").alias("highest"),
    )


def settle(suspected: DataFrame, delivered: DataFrame) -> DataFrame:
    """The suspects with what they are: duplicate if the client had got the very event before, else fifo.

    Events of one place in the row with two names (`p/0/1`, `p/00/1`) are neither (`rule` is null).
    """
    suspected = kept(suspected)
    keys = ["run", "client", "event"]
    known = delivered.where(f.col("real")).select(*keys, "index")
    asked = f.broadcast(suspected.select(*keys).distinct())
    firsts = known.join(asked, keys, "left_semi").groupBy(*keys).agg(f.min("index").alias("first"))
    judged = suspected.join(firsts, keys)
    again = f.col("index") > f.col("first")
    rule = f.when(again, Rule.DUPLICATE.value).when(~f.col("level"), Rule.FIFO.value)
    return judged.withColumn("rule", rule)


def out_of_order(settled: DataFrame) -> DataFrame:
    duplicate = f.col("rule") == Rule.DUPLICATE.value
    cause = f.when(duplicate, Cause.GOT_BEFORE).otherwise(f.lit(Cause.GOT_LATER_ONE))
    other = f.when(duplicate, "").otherwise(f.col("highest"))
    return findings(settled.where(f.col("rule").isNotNull()), f.col("rule"), cause, other=other)


KEPT = {
    "run": "string",
    "index": "int64",
    "at": "double",
    "client": "string",
    "event": "string",
    "published_at": "double",
}
COLUMNS = {**KEPT, "different": "bool", "refusal": "string"}


def compared(delivered: DataFrame, subscribed: DataFrame) -> DataFrame:
    """Compares only events that the client subscribed to: the others are spurious already."""
    doubtful = delivered.where(f.col("came").isNotNull())
    wanted = doubtful.join(f.broadcast(subscribed), wanted_by(doubtful, subscribed), "left_semi")
    return wanted.select(*KEPT, "sent", "came").mapInArrow(_compare, spark_schema(COLUMNS))


def altered_deliveries(respelt: DataFrame) -> DataFrame:
    return findings(respelt.where("different"), Rule.SPURIOUS, f.lit(Cause.ALTERED))


def refused_attributes(respelt: DataFrame) -> DataFrame:
    return respelt.where(f.col("refusal") != "").select(
        "run", "index", f.lit(0).cast("bigint").alias("step"), "refusal"
    )


def _compare(batches: Iterator[Any]) -> Iterator[Any]:
    return batches_of(map(_compare_row, rows_of(batches)), COLUMNS)


def _compare_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    *kept, sent, came = row
    try:
        return (*kept, altered(sent, came), "")
    except TraceError as error:
        return (*kept, False, str(error))
