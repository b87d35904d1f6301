"""The speed-up of the planner's search by a second core: the same starts on `local[1]` and `local[2]`, in turns.

Both must end every start with the same tree. Starting Spark, and the first job's starting of workers, is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from random import Random
from statistics import median
from time import perf_counter
from typing import NamedTuple

from pleach.bench.measurement import Measurement
from pleach.core.optimise.cost import Costs, Flow
from pleach.core.optimise.search import Problem, SearchEnd, SearchTask, draws, random_tree
from pleach.core.overlay.plans.topology import link
from pleach.spark.campaign import LIGHT_JVM
from pleach.spark.planner.options import DEGREE_MAX
from pleach.spark.session import load_spark, spark_session

BAR = 1.6  # times one core, on two
LINK_MAX, PROCESSING_MAX = 10.0, 10.0  # as S1 Table 5.1
MEMBERS_MAX, EVENTS_MAX = 10, 100


class PlanSize(NamedTuple):
    brokers: int
    starts: int
    rounds: int


USUAL = PlanSize(brokers=60, starts=64, rounds=2)
QUICK = PlanSize(brokers=30, starts=16, rounds=1)


class Timed(NamedTuple):
    seconds: float
    ends: list[SearchEnd]


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    yield from measure(QUICK if quick else USUAL, seed, timed)


def measure(effort: PlanSize, seed: int, timed: Callable[[SearchTask, int, int], Timed]) -> Iterator[Measurement]:
    """`timed`: how a task's first so many starts go on so many cores."""
    task = SearchTask(network(seed, effort.brokers), random_tree(_names(effort.brokers), draws(f"bench/{seed}")), seed)
    pairs = [(timed(task, effort.starts, 1), timed(task, effort.starts, 2)) for _ in range(effort.rounds)]
    for one, two in pairs:
        assert one.ends == two.ends == pairs[0][0].ends, "the result of a start depends on where it runs"
    work = f"{effort.starts} starts, {effort.brokers} brokers"
    alone, together = (median(pair[cores].seconds for pair in pairs) for cores in range(2))
    ratio = median(one.seconds / two.seconds for one, two in pairs)
    yield Measurement("plan", f"{work}, 1 core", alone, "s", "itself", 1.0, None, ok=True)
    yield Measurement("plan", f"{work}, 2 cores", together, "s", "1 core", ratio, BAR, ratio >= BAR)


def network(seed: int, brokers: int) -> Problem:
    """Brokers in a plane; half as many flows, each of up to ten of them."""
    draw, names = Random(seed), _names(brokers)
    places = {name: complex(draw.random(), draw.random()) for name in names}
    costs = Costs(
        {name: draw.uniform(0.0, PROCESSING_MAX) for name in names},
        {link(a, b): LINK_MAX * abs(places[a] - places[b]) for a, b in combinations(names, 2)},
    )
    members = [draw.sample(names, draw.randint(2, MEMBERS_MAX)) for _ in range(brokers // 2)]
    flows = tuple(Flow(first, frozenset(others), float(draw.randint(1, EVENTS_MAX))) for first, *others in members)
    return Problem(flows, costs, DEGREE_MAX)


def _names(brokers: int) -> list[str]:
    return [f"b{number:03d}" for number in range(brokers)]


def timed(task: SearchTask, starts: int, cores: int) -> Timed:
    """On a session of its own."""
    load_spark()
    from pleach.spark.planner.job import searched_on_spark  # noqa: PLC0415 an optional part, and slow to load

    spark = spark_session(f"local[{cores}]", app="pleach bench", settings=LIGHT_JVM)
    try:
        searched_on_spark(spark, task, cores)
        begun = perf_counter()
        ends = searched_on_spark(spark, task, starts)
        return Timed(perf_counter() - begun, ends)
    finally:
        spark.stop()
