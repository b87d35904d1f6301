"""Deliveries whose attributes are not spelt as they were published: are they others, or only written another way?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.batches import batches_of, rows_of
from pleach.spark.audit.deliveries import wanted_by
from pleach.spark.audit.findings import Cause, findings
from pleach.spark.lake import spark_schema
from pleach.trace.oracle import altered
from pleach.trace.verdict import Rule

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
    """Only what the client wanted is looked at: the rest is spurious already."""
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
