"""Many starts of a search, over executors: one task each (`core/optimise/search_starts.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from pleach.core.optimise.search import Rank, SearchResult
from pleach.core.optimise.search_starts import SearchEnd, SearchTask, searched
from pleach.core.overlay.plans.topology import Topology
from pleach.spark.audit.dataframes import batches_of, rows_of
from pleach.spark.lake import spark_schema

STARTS_PER_CORE = 4  # in one job; progress is reported after each job
COLUMNS = {"number": "int64", "excess": "int64", "cost": "double", "links": "list<string>"}


def searched_on_spark(
    spark: SparkSession, task: SearchTask, starts: int, on_done: Callable[[int], None] = lambda _done: None
) -> list[SearchEnd]:
    """In the order of their numbers. `on_done`: how many there are so far."""
    at_once = STARTS_PER_CORE * spark.sparkContext.defaultParallelism
    ends: list[SearchEnd] = []
    for first in range(0, starts, at_once):
        last = min(first + at_once, starts)
        numbers = spark.range(first, last, 1, last - first)
        rows = numbers.mapInArrow(partial(_carry_out, task), spark_schema(COLUMNS)).collect()
        ends += [_end(task, *row) for row in rows]
        on_done(last)
    return sorted(ends, key=lambda end: end.number)


def _carry_out(task: SearchTask, batches: Iterator[Any]) -> Iterator[Any]:
    return batches_of((_row(searched(task, number)) for (number,) in rows_of(batches)), COLUMNS)


def _row(end: SearchEnd) -> tuple[int, int, float, list[str]]:
    rank, tree = end.found
    return end.number, rank.excess, rank.cost, [name for link in tree.links for name in link]


def _end(task: SearchTask, number: int, excess: int, cost: float, names: list[str]) -> SearchEnd:
    links = zip(names[::2], names[1::2], strict=True)
    return SearchEnd(number, SearchResult(Rank(excess, cost), Topology.of(links, task.current.brokers)))
