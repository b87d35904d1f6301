"""One exchange of a link under load: the same network, clients and timeline for every protocol and order of a seed.

A random tree with a cycle of the wanted length; every two brokers that may come to be linked have a latency of their
own, up to 25 times that of others. Some clients answer at once what they see, and some see both: that is where causal
order breaks. Listeners have filters that nobody shares, since shared ones would hide a lost entry. Where the workload
is *lively*, (un)subscriptions come and go during the exchange; where it is *steady*, every routing message is due to
the exchange. When all is quiet the publishers go on for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from random import Random

from pleach.core.overlay.plans import Topology
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Drain, Exchange, Step, SubscribeStep, UnsubscribeStep
from pleach.scenario.values import Attributes, Choice, Span

LATENCY_FASTEST, LATENCY_RATIO = 0.001, 25.0  # seconds, between brokers
LATENCY_CLIENT_MAX = 0.004
LOAD_FROM = 0.8  # by then all subscriptions of the beginning are in effect
EXCHANGE_AT = 1.0
CHANGES_SECONDS = 0.4  # within them (un)subscriptions happen
LOAD_UNTIL = 2.7  # an exchange of twelve brokers by swaps takes 1.5 s, all others less
QUIET_AT = 3.0
AFTERWARDS = (3.1, 3.2)  # the publishers go on, and whatever the protocol, nothing may be lost any more
DURATION = 3.3

CYCLE_MIN = 3


@dataclass(frozen=True)
class ExchangeWorkload:
    """What all protocols meet alike. `cycle`: brokers on the cycle of the exchange."""

    cycle: int
    events_per_second: float = 10.0  # of each publisher
    brokers: int = 20
    publishers: int = 4
    listeners: int = 8
    routing: Routing = Routing.COVERING
    advertisements: bool = False
    is_lively: bool = True

    def __post_init__(self) -> None:
        assert CYCLE_MIN <= self.cycle <= self.brokers


@dataclass(frozen=True)
class ExchangeOverlay:
    """A tree, the exchange that is about to happen in it, and the latencies of all links that may come of it."""

    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    cycle: tuple[str, ...]  # from one end of the new link to the other
    cut: int  # the old link lies between cycle[cut] and cycle[cut + 1]
    latencies: tuple[tuple[str, str, Span], ...]

    def exchange(self, at: float) -> Exchange:
        removed = (self.cycle[self.cut], self.cycle[self.cut + 1])
        return Exchange(at=at, remove=removed, add=(self.cycle[0], self.cycle[-1]))


def workload_scenario(workload: ExchangeWorkload, seed: int, exchange: str, ordering: Ordering) -> Scenario:
    """The scenario of a seed; protocol and order change nothing else in it, not even its draws."""
    stream = Random(f"exchanges/{workload.cycle}/{workload.brokers}/{seed}")
    overlay = drawn_overlay(stream, workload.brokers, workload.cycle)
    clients = _clients(stream, workload, overlay.brokers)
    changes = _changes(stream, workload, clients)
    steps: list[Step] = [overlay.exchange(EXCHANGE_AT), Drain(at=QUIET_AT), *(changes if workload.is_lively else ())]
    return Scenario(
        name=f"exchange of {workload.cycle} {seed}",
        routing=workload.routing,
        advertisements=workload.advertisements,
        ordering=ordering,
        exchange=exchange,
        root=overlay.brokers[0],
        links=overlay.links,
        brokers=overlay.brokers,
        duration=DURATION,
        latency=PerLink(Span(0.0, 0.0), (*overlay.latencies, *_client_latencies(stream, clients))),
        clients=tuple(clients),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


def exchange_of(scenario: Scenario) -> Exchange:
    return next(step for step in scenario.steps if isinstance(step, Exchange))


def cycle_of(scenario: Scenario) -> tuple[str, ...]:
    """The brokers whose tables the exchange may change (S2 §4.2)."""
    return Topology.of(scenario.links, scenario.brokers).path(*exchange_of(scenario).add)


# The tree ---------------------------------------------------------------------------------------------------


def drawn_overlay(stream: Random, size: int, length: int) -> ExchangeOverlay:
    """A chain of the length of the cycle, from which the other brokers grow at random; any link of it goes."""
    brokers = [f"b{i}" for i in range(size)]
    stream.shuffle(brokers)
    cycle = tuple(brokers[:length])
    links = [*pairwise(cycle), *((stream.choice(brokers[:i]), brokers[i]) for i in range(length, size))]
    return ExchangeOverlay(
        brokers=tuple(sorted(brokers)),
        links=tuple(links),
        cycle=cycle,
        cut=stream.randrange(length - 1),
        latencies=_latencies(stream, links, cycle),
    )


def _latencies(
    stream: Random, links: Iterable[tuple[str, str]], cycle: Sequence[str]
) -> tuple[tuple[str, str, Span], ...]:
    """Of the tree's links and, since swaps go through other trees, of every two brokers on the cycle."""
    pairs = dict.fromkeys(tuple(sorted(pair)) for pair in (*links, *combinations(cycle, 2)))
    return tuple((a, b, _latency(stream)) for a, b in pairs)


def _latency(stream: Random) -> Span:
    """Constant, so that it is known how long an event would take in the tree before, and in the tree after."""
    seconds = LATENCY_FASTEST * stream.choice((1.0, LATENCY_RATIO, LATENCY_RATIO ** stream.random()))
    return Span(seconds, seconds)


def _client_latencies(stream: Random, clients: Iterable[ScenarioClient]) -> list[tuple[str, str, Span]]:
    drawn = [(client, stream.uniform(0.0, LATENCY_CLIENT_MAX)) for client in clients]
    return [(client.id, client.broker, Span(seconds, seconds)) for client, seconds in drawn]


# Clients ----------------------------------------------------------------------------------------------------


def _clients(stream: Random, workload: ExchangeWorkload, brokers: Sequence[str]) -> list[ScenarioClient]:
    topics = range(workload.publishers)
    lanes = tuple(f"lane{i}" for i in range(workload.listeners))
    publishers = [_publisher(stream, workload, i, stream.choice(brokers), lanes) for i in topics]
    answering = [_answering(i, stream.choice(brokers)) for i in topics]
    observers = [
        ScenarioClient(id=f"observer{i}", broker=stream.choice(brokers), subscribe=(f"of = {i}", f"re = {i}"))
        for i in topics
    ]
    listeners = [
        ScenarioClient(id=f"listener{i}", broker=stream.choice(brokers), subscribe=(f"lane = '{lane}'",))
        for i, lane in enumerate(lanes)
    ]
    return [*publishers, *answering, *observers, *listeners]


def _publisher(
    stream: Random, workload: ExchangeWorkload, topic: int, broker: str, lanes: tuple[str, ...]
) -> ScenarioClient:
    gap = 1.0 / workload.events_per_second
    attributes: Attributes = {"of": topic, "lane": Choice(lanes)}
    loads = [
        PublishLoad(
            every=Span(0.2 * gap, 1.8 * gap), start=start + gap * stream.random(), until=until, attributes=attributes
        )
        for start, until in ((LOAD_FROM, LOAD_UNTIL), AFTERWARDS)
    ]
    return ScenarioClient(id=f"publisher{topic}", broker=broker, publish=tuple(loads))


def _answering(topic: int, broker: str) -> ScenarioClient:
    """Answers are of no topic themselves, so that nobody answers them."""
    reply = Reply(to=f"of = {topic}", attributes={"re": topic}, probability=0.5, delay=Span(0.0, 0.002))
    return ScenarioClient(id=f"answering{topic}", broker=broker, reply=(reply,), subscribe=(f"of = {topic}",))


def _changes(stream: Random, workload: ExchangeWorkload, clients: Iterable[ScenarioClient]) -> list[Step]:
    """Every other listener takes a break; the rest want a topic, or all of them, for a while."""
    wider = ("EXISTS of", *(f"of = {i}" for i in range(workload.publishers)))
    steps: list[Step] = []
    for number, client in enumerate(c for c in clients if c.id.startswith("listener")):
        first, then = sorted(EXCHANGE_AT + stream.uniform(-0.1, 1.0) * CHANGES_SECONDS for _ in range(2))
        if number % 2:
            steps.append(UnsubscribeStep(at=first, client=client.id, filter=client.subscribe[0]))
            steps.append(SubscribeStep(at=then, client=client.id, filter=client.subscribe[0]))
        else:
            wanted = stream.choice(wider)
            steps.append(SubscribeStep(at=first, client=client.id, filter=wanted))
            steps.append(UnsubscribeStep(at=then, client=client.id, filter=wanted))
    return steps
