"""An engine of the control loop: each look is a file, Structured Streaming takes it, and a micro-batch makes flows.

    sightings ──▶ look-000000017.parquet ──readStream──▶ micro-batch ──▶ flows of the window ──▶ search over executors

A micro-batch says what is new; the window that it ends also has rows of looks before, which are read again from their
files. Aggregating them in the stream's own state instead would need a watermark: what a slow broker tells late would
be dropped, and every plan would come later by the delay that is to prevent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import DEGREE_MIN, Problem
from pleach.core.optimise.sightings import Pick, Sighting
from pleach.core.optimise.tasks import End, Task
from pleach.core.overlay.plans.topology import Topology
from pleach.errors import SparkError
from pleach.spark.control.telemetry import SCHEMA, picked_on_spark, write_sightings
from pleach.spark.job_errors import explained
from pleach.spark.planner.starts import searched_on_spark

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
        """The first query of a session takes long: better before the first look than after it."""
        pair = Topology.of([("a", "b")])
        self._pick([], 0.0, 0.0)
        self._searched(Task(Problem((), Prices().costs(pair.brokers), DEGREE_MIN), pair, 1), 1)

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> Pick:
        return await asyncio.to_thread(self._pick, sightings, since, until)

    async def searched(self, task: Task, starts: int) -> list[End]:
        return await asyncio.to_thread(self._searched, task, starts)

    def _searched(self, task: Task, starts: int) -> list[End]:
        with explained("the search"):
            return searched_on_spark(self._spark, task, starts)

    def _pick(self, sightings: Sequence[Sighting], since: float, until: float) -> Pick:
        self._number += 1
        path = write_sightings(sightings, self._looks, self._number)
        self._recent = [(file, latest) for file, latest in self._recent if latest >= since]
        self._recent.append((path, max((each.at for each in sightings), default=since)))
        found: list[Pick] = []

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
