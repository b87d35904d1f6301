"""S1 Fig. 4.15: what the strawman loses and doubles grows with the length of the cycle."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest

from pleach.scenario.model import Ordering, PerLink, PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Drain, Exchange
from pleach.scenario.values import Span
from pleach.trace import Rule
from support.overlay.exchange.exchange_networks import exchanged
from support.thorough import FACTOR

pytestmark = pytest.mark.heavy

LENGTHS = (3, 6, 12)
SEEDS = 8 * FACTOR
PUBLISHERS, SUBSCRIBERS = 6, 30  # five to each publisher (S1: nine)
LATENCY_MIN, LATENCY_MAX = 0.005, 0.015  # alike, so that the length counts and not which links were drawn


def ring(length: int, seed: int, exchange: str) -> Scenario:
    """A chain whose ends are joined and whose middle is cut; the same load at every length."""
    stream = Random(f"ring/{length}/{seed}")
    brokers = tuple(f"b{i}" for i in range(length))
    middle = (length - 1) // 2
    return Scenario(
        name=f"ring {length} {seed}",
        routing=Routing.IDENTITY,
        ordering=Ordering.NONE,
        exchange=exchange,
        root=brokers[0],
        links=tuple(pairwise(brokers)),
        brokers=brokers,
        duration=3.5,
        latency=PerLink(Span(0.001, 0.001), tuple((a, b, _latency(stream)) for a, b in combinations(brokers, 2))),
        clients=(
            *(_publisher(i, stream.choice(brokers)) for i in range(PUBLISHERS)),
            *(_subscriber(i, stream.choice(brokers)) for i in range(SUBSCRIBERS)),
        ),
        steps=(
            Exchange(at=1.0, remove=(brokers[middle], brokers[middle + 1]), add=(brokers[0], brokers[-1])),
            Drain(at=3.0),
        ),
    )


def _latency(stream: Random) -> Span:
    latency = stream.uniform(LATENCY_MIN, LATENCY_MAX)
    return Span(latency, latency)


def _publisher(index: int, broker: str) -> ScenarioClient:
    """During the exchange, and when all is quiet again."""
    loads = [
        PublishLoad(every=Span(0.008, 0.012), start=start, until=until, attributes={"of": index})
        for start, until in ((0.8, 2.0), (3.1, 3.2))
    ]
    return ScenarioClient(id=f"p{index}", broker=broker, publish=tuple(loads))


def _subscriber(index: int, broker: str) -> ScenarioClient:
    return ScenarioClient(id=f"s{index}", broker=broker, subscribe=(f"of = {index % PUBLISHERS}",))


def broken_at(length: int, exchange: str) -> Counter[Rule]:
    total: Counter[Rule] = Counter()
    for seed in range(SEEDS):
        result = exchanged(ring(length, seed, exchange), seed)
        assert not result.flaws, (length, seed, result.flaws[:5])
        assert not result.refusals
        assert result.published_afterwards
        total += result.broken
    return total


def test_the_strawman_loses_and_doubles_more_on_longer_cycles():
    found = [broken_at(length, "strawman") for length in LENGTHS]
    for shorter, longer in pairwise(found):
        assert shorter[Rule.LOST] < longer[Rule.LOST], found
        assert shorter[Rule.DUPLICATE] < longer[Rule.DUPLICATE], found


def test_a_delay_trades_losses_for_duplicates():
    """S1 §4.4.1, deferred unsubscriptions: a delay that is long enough loses nothing, and doubles more."""
    at_once, deferred = (broken_at(LENGTHS[1], exchange) for exchange in ("strawman", "deferred"))
    assert deferred[Rule.LOST] == 0 < at_once[Rule.LOST]
    assert deferred[Rule.DUPLICATE] > at_once[Rule.DUPLICATE]
