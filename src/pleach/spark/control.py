"""An engine of the control loop (operate/improve.py): each round writes a file, which a stream turns into flows.

    sightings ──▶ look-000000017.parquet ──readStream──▶ micro-batch ──▶ flows of the window ──▶ search over executors

A micro-batch has the new rows; the window that it ends also has rows of earlier rounds, which are read again from their
files. Aggregation in the state of the stream would need a watermark: late rows of a slow broker would be dropped, and
every plan would be delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import DEGREE_MIN, Problem, SearchEnd, SearchTask
from pleach.core.optimise.sightings import HASH_BITS, HASH_MAX, SPREAD, Sighting, TrafficSample
from pleach.core.overlay.plans.topology import Topology
from pleach.errors import SparkError
from pleach.lake.arrow import arrow_type, load_arrow
from pleach.spark.job_errors import explained
from pleach.spark.lake import spark_schema
from pleach.spark.planner.job import flows_in, searched_on_spark

LOOKS = "looks"
CHECKPOINT = "checkpoint"


class SparkEngine:
    """`directory`: for telemetry; what is there of former loops stays, and is not taken again."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._looks = directory / LOOKS
        self._checkpoint = directory / CHECKPOINT
        self._looks.mkdir(parents=True, exist_ok=True)
        self._number = len(list(self._looks.iterdir()))
        self._recent: list[tuple[Path, float]] = []  # files, and the latest time in each

    def warm_up(self) -> None:
        """Run the first query, which takes long, before the first round."""
        pair = Topology.of([("a", "b")])
        self._pick([], 0.0, 0.0)
        self._searched(SearchTask(Problem((), Prices().costs(pair.brokers), DEGREE_MIN), pair, 1), 1)

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        return await asyncio.to_thread(self._pick, sightings, since, until)

    async def searched(self, task: SearchTask, starts: int) -> list[SearchEnd]:
        return await asyncio.to_thread(self._searched, task, starts)

    def _searched(self, task: SearchTask, starts: int) -> list[SearchEnd]:
        with explained("the search"):
            return searched_on_spark(self._spark, task, starts)

    def _pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        self._number += 1
        path = write_sightings(sightings, self._looks, self._number)
        self._recent = [(file, latest) for file, latest in self._recent if latest >= since]
        self._recent.append((path, max((each.at for each in sightings), default=since)))
        found: list[TrafficSample] = []

        def take(batch: DataFrame, _number: int) -> None:
            window = batch.sparkSession.read.schema(SCHEMA).parquet(*(str(file) for file, _ in self._recent))
            found.append(picked_on_spark(window.where(f"at >= {since!r}"), since, until))

        with explained("reading telemetry"):
            stream = self._spark.readStream.schema(SCHEMA).parquet(str(self._looks))
            query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))
            query.trigger(availableNow=True).start().awaitTermination()
        if not found:
            raise SparkError(f"{path} was written, and the stream has not seen it; is {self._checkpoint} of another?")
        return found[-1]


# Telemetry of brokers as Parquet: one file per round, so that a stream reads each once --------------------------------

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
