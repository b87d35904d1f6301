"""Findings of the rules in a common form: one row per `Violation`."""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pleach.spark.lake import spark_schema
from pleach.trace.verdict import Rule, Violation


class Cause(StrEnum):
    """The cause; its value is the reason in the report."""

    NEVER_PUBLISHED = "it was never published"
    PUBLISHED_LATER = "it was published only later"
    FAILED = "its publication had failed"
    NOT_SUBSCRIBED = "the client has no matching subscription"
    ALTERED = "its attributes are not those that were published"
    GOT_BEFORE = "the client got it before"
    GOT_LATER_ONE = "the client got {other} before"
    GOT_EFFECT = "the client got {other} before, which came after it"
    NOT_ENDED = "subscription {name!r} was acknowledged before and not ended"
    DRAINED = "subscription {name!r} was ended only after a drain"
    OVERTAKEN = "subscription {name!r} was ended only after a later event of the publisher had come"


# `moment` is the index at which the reference notices; `turn` and `turn_index` are the order in which it lists losses.
COLUMNS = {
    "run": "string",
    "rule": "string",
    "client": "string",
    "event": "string",
    "cause": "string",
    "index": "int64",
    "at": "double",
    "published_at": "double",
    "accepted_at": "double",  # of what is lost; a delivery has its own time
    "other": "string",
    "name": "string",
    "moment": "int64",
    "turn": "string",
    "turn_index": "int64",
}


def findings(
    rows: DataFrame, rule: Rule | Column, cause: Column, *, other: Column | None = None, name: Column | None = None
) -> DataFrame:
    """Deliveries that break a rule, in the common form."""
    nothing = f.lit("")
    return rows.select(
        "run",
        (rule if isinstance(rule, Column) else f.lit(rule.value)).alias("rule"),
        "client",
        "event",
        cause.alias("cause"),
        "index",
        "at",
        "published_at",
        f.lit(None).cast("double").alias("accepted_at"),
        (nothing if other is None else other).alias("other"),
        (nothing if name is None else name).alias("name"),
        f.col("index").alias("moment"),
        nothing.alias("turn"),
        f.lit(0).cast("bigint").alias("turn_index"),
    )


def nothing_found(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], spark_schema(COLUMNS))


def violation(row: Row) -> Violation:
    reason = row.cause.format(other=row.other, name=row.name)
    return Violation(Rule(row.rule), row.client, row.event, reason, row["index"], row.at, row.other)


def noticed(row: Row) -> tuple[object, ...]:
    """Sorts as the reference finds them: by moment; at one delivery spurious, duplicate, order; losses at the end."""
    late = row.rule == Rule.LOST
    rank = -1 if late else _RANK[Rule(row.rule)]
    return (row.moment, rank, row["index"], row.turn, row.turn_index)


_RANK = {Rule.SPURIOUS: 0, Rule.DUPLICATE: 1, Rule.FIFO: 2, Rule.CAUSAL: 3}
