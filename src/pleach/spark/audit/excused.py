"""Violations that are excused: those within faults that suspend the checks are set aside and counted."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.spark.audit.overview import RunOverview
from pleach.trace.verdict import Rule


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
