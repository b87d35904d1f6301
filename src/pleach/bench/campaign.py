"""The speed-up of a campaign on two cores over one process with the same simulations.

Both measure the same seeds of a small network; the campaign also keeps its results in a lake, as `pleach lab run` does.
They take turns. Starting Spark, some five seconds once, is not counted, nor is the first job's starting of workers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from pleach.bench.measurement import Measurement
from pleach.scenario.model import PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span
from pleach.sim.run import run_scenario
from pleach.spark.campaign import LIGHT_JVM, Campaign, run_campaign
from pleach.spark.results import Results
from pleach.spark.session import spark_session
from pleach.spark.task_partitions import CampaignTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
BAR = 1.7  # times one process, on two cores
RUNS, RUNS_QUICK = 1_000, 150
ROUNDS, ROUNDS_QUICK = 3, 2
BROKERS = 20
CLIENTS = 10
EVENTS = 40
CASE = '{"brokers":20}'


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    runs, rounds = (RUNS_QUICK, ROUNDS_QUICK) if quick else (RUNS, ROUNDS)
    seeds = range(seed, seed + runs)
    spark = spark_session(f"local[{CORES}]", app="pleach bench", settings=LIGHT_JVM)
    try:
        _campaign_seconds(spark, seeds[: 2 * CORES])  # workers start, modules are loaded
        pairs = [(_campaign_seconds(spark, seeds), _one_process_seconds(seeds)) for _ in range(rounds)]
    finally:
        spark.stop()
    ours = median(mine for mine, _ in pairs)
    ratio = median(other / mine for mine, other in pairs)
    case = f"{runs:,} simulations, {CORES} cores"
    yield Measurement("campaign", case, runs / ours, "runs/s", "one process", ratio, BAR, ratio >= BAR)


def measure(_case: str, seed: int) -> list[tuple[str, float]]:
    result = run_scenario(network(seed), seed, kinds=frozenset())
    assert result.quiet
    return [("hops", float(result.hops))]


def network(seed: int) -> Scenario:
    """A random tree under a little load."""
    draw = Random(seed)
    brokers = tuple(f"b{i}" for i in range(BROKERS))
    readers = [
        ScenarioClient(id=f"r{i}", broker=draw.choice(brokers), subscribe=(f"x > {10 * i}",)) for i in range(CLIENTS)
    ]
    load = PublishLoad(every=Span(0.01, 0.02), start=0.5, count=EVENTS, attributes={"x": 75})
    return Scenario(
        name="campaign",
        routing=Routing.COVERING,
        links=tuple((brokers[draw.randrange(i)], brokers[i]) for i in range(1, BROKERS)),
        brokers=brokers,
        root=brokers[0],
        duration=2.0,
        clients=(*readers, ScenarioClient(id="w", broker=brokers[0], publish=(load,))),
    )


def _campaign_seconds(spark: SparkSession, seeds: range) -> float:
    campaign = Campaign("bench", [CampaignTask(CASE, seed) for seed in seeds], measure)
    with tempfile.TemporaryDirectory(prefix="pleach-bench-") as lake:
        start = perf_counter()
        with Results(Path(lake), "main", "bench").opened("bench") as append:
            failures = run_campaign(spark, campaign, lambda outcomes: append(outcomes, [""] * outcomes.num_rows))
        seconds = perf_counter() - start
    assert not failures
    return seconds


def _one_process_seconds(seeds: range) -> float:
    start = perf_counter()
    for _ in map(partial(measure, CASE), seeds):
        pass
    return perf_counter() - start
