"""The control loop on Spark: on the same telemetry the same flows, the same plan, as in one process."""

import asyncio
from itertools import pairwise
from random import Random

import pytest

from pleach.core.optimise.improvement import ImproveVerdict, Rules, proposed
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import SearchTask
from pleach.core.optimise.sightings import Seen, Sighting, SightingLog, TrafficSample
from pleach.core.overlay.plans import Topology
from pleach.operate.improve import PlainEngine

BROKERS = "abcdef"
TREE = Topology.of(pairwise(BROKERS))
LOOKS = 3
LOOK_SECONDS = 10.0
STARTS = 3
GROUPS = ("ad", "be", "cf", "abf")


def looks(notes_max):
    """What brokers told in some looks: events of groups of brokers, each delivered a little later."""
    draw = Random(notes_max)
    books = {name: SightingLog(notes_max) for name in BROKERS}
    after = dict.fromkeys(BROKERS, 0)
    seen = []  # when, broker, event, what
    for number in range(1, 601):
        at, group = draw.uniform(0.0, LOOKS * LOOK_SECONDS), draw.choices(GROUPS, (8, 4, 2, 1))[0]
        event = (f"client-{group[0]}", 1, number)
        seen.append((at, group[0], event, Seen.PUBLISH))
        seen += [(at + draw.uniform(0.01, 0.4), other, event, Seen.DELIVER) for other in group[1:]]
    for look in range(1, LOOKS + 1):
        now = look * LOOK_SECONDS
        for at, broker, event, what in sorted(seen):
            if now - LOOK_SECONDS <= at < now:
                books[broker].note([event], what, at)
        told = {name: books[name].told(name, after[name], now) for name in BROKERS}
        after = {name: number for name, (_, number) in told.items()}
        yield now, Sighting.all_of([(report, now) for report, _ in told.values()])


async def proposals(engine, notes_max):
    tree, rules, since, found = TREE, Rules(), 0.0, []
    for now, sightings in looks(notes_max):
        pick = await engine.pick(sightings, since, now - 1.0)
        since = now - 1.0
        task = SearchTask(rules.problem(pick, tree, Prices().costs(tree.brokers)), tree, 1)
        proposal = proposed(task, await engine.searched(task, STARTS), pick, rules, leave=2)
        tree = proposal.order.end if proposal.is_worth_it else tree
        found.append(proposal)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("notes_max", [4_096, 40])
def test_both_engines_propose_the_same_on_the_same_telemetry(spark, tmp_path, notes_max):
    from pleach.spark.control import SparkEngine  # noqa: PLC0415

    plain = asyncio.run(proposals(PlainEngine(), notes_max))
    on_spark = asyncio.run(proposals(SparkEngine(spark, tmp_path), notes_max))
    assert [each.pick for each in on_spark] == [each.pick for each in plain]
    assert on_spark == plain
    assert plain[0].verdict is ImproveVerdict.IMPROVE
    assert (plain[-1].pick.one_in > 1) == (notes_max < 100)
    assert sum(each.pick.events for each in plain) > 10


@pytest.mark.spark
def test_an_engine_that_starts_again_does_not_take_old_looks_twice(spark, tmp_path):
    from pleach.spark.control import SparkEngine  # noqa: PLC0415

    (now, sightings), *_ = looks(4_096)
    first = asyncio.run(SparkEngine(spark, tmp_path).pick(sightings, 0.0, now))
    again = SparkEngine(spark, tmp_path)
    again.warm_up()
    assert first.events > 10
    assert asyncio.run(again.pick([], now, 2 * now)) == TrafficSample((), 1)
    assert len(list((tmp_path / "looks").glob("look-*.parquet"))) == 3
