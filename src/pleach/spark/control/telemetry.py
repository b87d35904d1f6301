"""Telemetry of brokers as Parquet: one file per round, so that a stream reads each once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pleach.core.optimise.sightings import HASH_BITS, HASH_MAX, SPREAD, Sighting, TrafficSample
from pleach.lake.arrow import arrow_type, load_arrow
from pleach.spark.lake import spark_schema
from pleach.spark.planner.flows import flows_in

COLUMNS = {"event": "string", "broker": "string", "seen": "string", "at": "double", "level": "int64"}
SCHEMA = spark_schema(COLUMNS)
SUFFIX = ".parquet"


def write_sightings(sightings: Sequence[Sighting], directory: Path, number: int) -> Path:
    """Write a file atomically: a stream ignores names that begin with a dot."""
    arrow = load_arrow()
    schema = arrow.schema([(name, arrow_type(kind)) for name, kind in COLUMNS.items()])
    columns = {name: [getattr(each, name) for each in sightings] for name in COLUMNS}
    path = directory / f"look-{number:09d}{SUFFIX}"
    unfinished = path.with_name(f".{path.name}")
    arrow.parquet.write_table(arrow.table(columns, schema=schema), unfinished)
    return unfinished.rename(path)


def picked_on_spark(sightings: DataFrame, since: float, until: float) -> TrafficSample:
    """As `optimise.sightings.sampled_traffic`: flows of events published in between, at the level of all brokers."""
    row = sightings.agg(f.max("level").alias("level")).first()
    level = (row["level"] if row else None) or 0
    placed = sightings.where(_is_of_level(level)).transform(_published_between, since, until)
    return TrafficSample(flows_in(placed), 1 << level)


def _published_between(sightings: DataFrame, since: float, until: float) -> DataFrame:
    """All that was seen of these events, in the planner's columns."""
    at = f.when(f.col("seen") == "publish", f.col("at"))
    chosen = sightings.groupBy("event").agg(f.max(at).alias("published"))
    chosen = chosen.where((f.col("published") >= since) & (f.col("published") < until)).select("event")
    return sightings.join(chosen, "event").select(
        f.lit("").alias("run"), "event", f.col("seen").alias("kind"), f.col("broker").alias("who"), "broker"
    )


def _is_of_level(level: int) -> Column:
    """As `spelled_level`, in columns."""
    hashed = (f.crc32(f.encode("event", "UTF-8")) * SPREAD).bitwiseAND(HASH_MAX)
    return hashed < (1 << (HASH_BITS - level))
