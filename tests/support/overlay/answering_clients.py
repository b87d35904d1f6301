"""One swap among clients that all hear and answer each other: where an order of causes can break, it does.

At every broker sits a client that wants everything and answers what others say; two of them speak all the time. One
swap happens in the middle, on links and over links whose latencies differ by 25 times. `chorus(seed)` has one swap, so
that the share of seeds with a violation is the share of swaps that break causal order.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Swap
from pleach.scenario.values import Span

SWAP_AT = 0.1
DURATION = 0.3
LATENCY_FASTEST, LATENCY_RATIO = 0.001, 25.0
LATENCY_CLIENT = 0.0001
BROKERS_MAX = 5
GAP = 0.008  # between the events of one publisher


def chorus(seed: int, exchange: str) -> Scenario:
    stream = Random(f"chorus/{seed}")
    brokers = ["a", "b", "c", "d", "e"][: stream.randint(3, BROKERS_MAX)]
    links = [("a", "b"), ("b", "c"), *((stream.choice("abc"), further) for further in brokers[3:])]
    return Scenario(
        name=f"chorus {seed}",
        routing=Routing.SIMPLE,
        ordering=Ordering.CAUSAL,
        exchange=exchange,
        root="a",
        links=tuple(links),
        brokers=tuple(brokers),
        duration=DURATION,
        latency=PerLink(
            Span(LATENCY_CLIENT, LATENCY_CLIENT), tuple((a, b, _latency(stream)) for a, b in combinations(brokers, 2))
        ),
        clients=tuple(_client(stream, broker) for broker in brokers),
        steps=(Swap(at=SWAP_AT, brokers=("a", "b", "c")),),
    )


def _latency(stream: Random) -> Span:
    low = LATENCY_FASTEST * LATENCY_RATIO ** stream.random()
    return Span(low, low)


def _client(stream: Random, broker: str) -> ScenarioClient:
    """Answers are of a kind of their own, and not answered."""
    speaks = broker in "ac" or stream.random() < 0.3
    return ScenarioClient(
        id=f"at-{broker}",
        broker=broker,
        publish=(PublishLoad(every=Span(GAP * 0.5, GAP * 1.5), attributes={"said": broker}),) if speaks else (),
        reply=(Reply(to="EXISTS said", attributes={"answered": broker}, probability=0.3),),
        subscribe=("EXISTS said", "EXISTS answered"),
        own_events=False,
    )
