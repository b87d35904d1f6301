"""Small networks under load with one or two operations: what crash tests and tests of overlapping start from.

x ── a ── b ── c ── z        every broker has a client that wants all and answers; z has two
"""

from __future__ import annotations

from itertools import combinations

import msgspec

from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import AddBroker, RemoveBroker, Step, SubscribeStep, Swap, UnsubscribeStep
from pleach.scenario.values import Span

BEGINS_AT = 0.08
DURATION = 0.25
BROKERS = ("x", "a", "b", "c", "z")
LINKS = (("x", "a"), ("a", "b"), ("b", "c"), ("c", "z"))
SLOW = {("a", "c"): 0.025, ("b", "c"): 0.008, ("a", "b"): 0.002}  # seconds; others 1 ms
LATENCY_CLIENT = 0.0005
GAP = 0.03

SWAP = Swap(at=BEGINS_AT, brokers=("a", "b", "c"))
OPPOSED = Swap(at=BEGINS_AT, brokers=("c", "b", "a"))
ADD = AddBroker(at=BEGINS_AT, broker="n", to="b")
REMOVE = RemoveBroker(at=BEGINS_AT, broker="z")

AFTER = {  # links that come and go with each
    SWAP: ({("a", "c")}, {("a", "b")}),
    OPPOSED: ({("a", "c")}, {("b", "c")}),
    ADD: ({("b", "n")}, set()),
    REMOVE: (set(), {("c", "z")}),
}


def station(*operations: Step, **changes) -> Scenario:
    """The chain with these operations, and subscriptions that come and go while they are under way."""
    scenario = Scenario(
        name="station",
        routing=Routing.COVERING,
        ordering=Ordering.CAUSAL,
        root="x",
        links=LINKS,
        brokers=BROKERS,
        duration=DURATION,
        latency=PerLink(Span(LATENCY_CLIENT, LATENCY_CLIENT), tuple(_latencies())),
        clients=tuple(_clients()),
        steps=tuple(sorted((*operations, *_unrest()), key=lambda step: step.at)),
    )
    return msgspec.structs.replace(scenario, **changes)


def _latencies():
    for a, b in combinations(sorted((*BROKERS, "n")), 2):
        seconds = SLOW.get((a, b), 0.001)
        yield a, b, Span(seconds, seconds)


def _clients():
    for name, broker in (*((f"at-{broker}", broker) for broker in BROKERS), ("guest", "z")):
        yield ScenarioClient(
            id=name,
            broker=broker,
            publish=(PublishLoad(every=Span(GAP * 0.5, GAP * 1.5), attributes={"said": name}),),
            reply=(Reply(to="EXISTS said", attributes={"answered": name}, probability=0.1),),
            subscribe=("EXISTS said", "EXISTS answered")
            if broker in "az"
            else (f"said = 'at-{broker}'", "said = 'guest'"),
        )


def _unrest():
    """Covers come and go while operations are under way."""
    for i in range(5):
        at = BEGINS_AT + 0.013 * i
        yield SubscribeStep(at=at, client="at-b", filter="EXISTS said")
        yield UnsubscribeStep(at=at + 0.009, client="at-b", filter="EXISTS said")
        yield UnsubscribeStep(at=at, client="guest", filter="EXISTS said")
        yield SubscribeStep(at=at + 0.005, client="guest", filter="EXISTS said")


def links_after(*done: Step) -> set[frozenset[str]]:
    """The tree once these operations are carried out."""
    links = {frozenset(link) for link in LINKS}
    for operation in done:
        come, gone = AFTER[operation]
        links = links - {frozenset(link) for link in gone} | {frozenset(link) for link in come}
    return links
