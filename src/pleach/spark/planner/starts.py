"""Many starts of a search, over executors. A start is a pure function of its number: where it runs changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pleach.optimise.search import Draws, Found, Problem, Rank, found_from
from pleach.optimise.starts import name_of_start, start_tree
from pleach.overlay.plans.topology import Topology
from pleach.spark.audit.batches import batches_of, rows_of
from pleach.spark.lake import spark_schema

STARTS_PER_CORE = 4  # in one job: after each of them the progress is told
COLUMNS = {"number": "int64", "excess": "int64", "cost": "double", "links": "list<string>"}


class Task(NamedTuple):
    """What every start needs to know; travels to executors."""

    problem: Problem
    current: Topology
    seed: int


class End(NamedTuple):
    """Where a search from one start has ended."""

    number: int
    found: Found

    @property
    def name(self) -> str:
        return name_of_start(self.number)


def searched(task: Task, number: int) -> End:
    """One start, from its first tree to its last."""
    draws = _draws(f"plan/{task.seed}/{number}")
    first = start_tree(number, task.current, task.problem, draws)
    return End(number, found_from(first, task.problem, draws))


def _draws(stream: str) -> Draws:
    draw = Random(stream)  # noqa: S311 a seeded stream, no secret
    while True:
        yield draw.random()


def searched_on_spark(
    spark: SparkSession, task: Task, starts: int, on_done: Callable[[int], None] = lambda _done: None
) -> list[End]:
    """In the order of their numbers. `on_done`: how many there are so far."""
    at_once = STARTS_PER_CORE * spark.sparkContext.defaultParallelism
    ends: list[End] = []
    for first in range(0, starts, at_once):
        last = min(first + at_once, starts)
        numbers = spark.range(first, last, 1, last - first)
        rows = numbers.mapInArrow(partial(_carry_out, task), spark_schema(COLUMNS)).collect()
        ends += [_end(task, *row) for row in rows]
        on_done(last)
    return sorted(ends, key=lambda end: end.number)


def _carry_out(task: Task, batches: Iterator[Any]) -> Iterator[Any]:
    return batches_of((_row(searched(task, number)) for (number,) in rows_of(batches)), COLUMNS)


def _row(end: End) -> tuple[int, int, float, list[str]]:
    rank, tree = end.found
    return end.number, rank.excess, rank.cost, [name for link in tree.links for name in link]


def _end(task: Task, number: int, excess: int, cost: float, names: list[str]) -> End:
    links = zip(names[::2], names[1::2], strict=True)
    return End(number, Found(Rank(excess, cost), Topology.of(links, task.current.brokers)))
