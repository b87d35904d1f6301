"""Random networks whose tree changes under load: swaps, joins and departures, one by one, at once, and among faults.

`upheaval(seed)` is a function of the seed alone; `under` adds a way to route and an order to keep. What is drawn is
what breaks reconfigurations: every pair of brokers has a latency of its own, up to 25 times that of another, so that
new links are much faster or slower than the paths they replace; clients answer at once what they see; filters of one
client alone stand beside shared ones (those would hide a lost entry); subscriptions come and go, and wide ones vanish
from above narrow ones, mostly while an operation is under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from random import Random

import msgspec

from pleach.core.overlay.registry import CYCLES
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import (
    AddBroker,
    AdvertiseStep,
    Crash,
    Cut,
    Drain,
    Exchange,
    Heal,
    RemoveBroker,
    Restart,
    Step,
    SubscribeStep,
    Swap,
    UnadvertiseStep,
    UnsubscribeStep,
)
from pleach.scenario.values import Choice, Span, Uniform
from support.contract.networks import (
    COMBINATIONS,
    LANES,
    PRICES,
    TOPICS,
    Combination,
    changes_of_mind,
    combined,
    filters_of,
)

LOAD_FROM = 0.1  # seconds
LOAD_AFTER = 0.35  # goes on that long after the last operation has begun
DURATION_MAX = 2.0
BROKERS_MIN, BROKERS_MAX = 3, 7
CLIENTS_MIN, CLIENTS_MAX = 4, 6
LATENCY_FASTEST, LATENCY_RATIO = 0.001, 25.0  # of links between brokers
LATENCY_CLIENT_MAX = 0.004
OPERATION_SECONDS = 0.25  # about as long as a swap takes where all links are slow
WIDE = ("EXISTS lane", "EXISTS topic", "price >= 0")

TreeStep = Swap | Exchange | AddBroker | RemoveBroker


class Manner(StrEnum):
    """How operations follow each other."""

    ONE_BY_ONE = "one by one"  # each is over before the next: none may be refused
    AT_ONCE = "at once"
    AMONG_FAULTS = "among faults"


@dataclass(frozen=True)
class Setting:
    """What a network promises and how it routes. `name` is what reports and the replay command use."""

    combination: Combination
    ordering: Ordering

    @property
    def name(self) -> str:
        return f"{self.combination.name}/{self.ordering}"


SETTINGS = tuple(Setting(combination, ordering) for combination in COMBINATIONS for ordering in Ordering)
BY_NAME = {setting.name: setting for setting in SETTINGS}
FLAT = tuple(setting for setting in SETTINGS if not setting.combination.hierarchical)


def settings_for(exchange: str) -> tuple[Setting, ...]:
    """Protocols that work along the cycle refuse hierarchical routing."""
    return FLAT if exchange in CYCLES else SETTINGS


def setting_of(seed: int, exchange: str = "swaplink") -> Setting:
    """Seeds in a row go through all settings that the protocol has."""
    settings = settings_for(exchange)
    return settings[seed % len(settings)]


def manner_of(seed: int) -> Manner:
    return (Manner.ONE_BY_ONE, Manner.ONE_BY_ONE, Manner.AT_ONCE, Manner.AMONG_FAULTS)[seed // len(SETTINGS) % 4]


def under(scenario: Scenario, setting: Setting, exchange: str = "swaplink") -> Scenario:
    routed = combined(scenario, setting.combination)
    return msgspec.structs.replace(routed, ordering=setting.ordering, exchange=exchange)


def upheaval(seed: int) -> Scenario:
    """A network and all that happens in it; what it promises is left to `under`."""
    stream = Random(f"upheaval/{seed}")
    sketch = Sketch.drawn(stream)
    brokers, links = tuple(sketch.brokers), tuple(sketch.links)
    manner = manner_of(seed)
    operations = _operations(stream, sketch, manner)
    moments = [step.at for step in operations]
    clients = clients_of(stream, brokers, max(moments, default=0.0) + LOAD_AFTER)
    steps: list[Step] = [*operations, *_drains(stream, moments, manner)]
    if manner is Manner.AMONG_FAULTS:
        lasting = [broker for broker in brokers if broker in sketch.brokers]
        steps += _faults(stream, operations, lasting, [link for link in links if {*link} <= {*lasting}])
    for index, client in enumerate(clients):
        steps += unrest_of(stream, client, index, moments)
    return Scenario(
        name=f"upheaval {seed}",
        routing=Routing.SIMPLE,
        root=stream.choice(brokers),
        links=links,
        brokers=brokers,
        duration=DURATION_MAX,
        latency=PerLink(Span(LATENCY_FASTEST, LATENCY_FASTEST), latencies_of(stream, sketch.named, clients)),
        clients=tuple(clients),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


# The tree, and what is done to it ---------------------------------------------------------------------------


@dataclass
class Sketch:
    """The tree as it is if all operations so far succeeded. `named`: all brokers that ever were."""

    brokers: list[str]
    links: list[tuple[str, str]]
    named: list[str] = field(default_factory=list)

    @classmethod
    def drawn(cls, stream: Random) -> Sketch:
        brokers = [f"b{i}" for i in range(stream.randint(BROKERS_MIN, BROKERS_MAX))]
        is_chain = stream.random() < 0.4
        links = [(brokers[i - 1 if is_chain else stream.randrange(i)], brokers[i]) for i in range(1, len(brokers))]
        return cls(brokers, links, list(brokers))

    def neighbours(self, broker: str) -> list[str]:
        return sorted(b if a == broker else a for a, b in self.links if broker in (a, b))

    def swap(self, stream: Random, at: float) -> Swap | None:
        inner = [broker for broker in self.brokers if len(self.neighbours(broker)) > 1]
        if not inner:
            return None
        b = stream.choice(inner)
        a, c = stream.sample(self.neighbours(b), 2)
        self.links = [link for link in self.links if set(link) != {a, b}] + [(a, c)]
        return Swap(at=at, brokers=(a, b, c))

    def add(self, stream: Random, at: float) -> AddBroker:
        broker, to = f"n{len(self.named)}", stream.choice(self.brokers)
        self.brokers.append(broker)
        self.named.append(broker)
        self.links.append((to, broker))
        return AddBroker(at=at, broker=broker, to=to)

    def remove(self, stream: Random, at: float) -> RemoveBroker | None:
        leaves = [broker for broker in self.brokers if len(self.neighbours(broker)) == 1]
        if len(self.brokers) < 3:
            return None
        gone = stream.choice(leaves)
        self.brokers.remove(gone)
        self.links = [link for link in self.links if gone not in link]
        return RemoveBroker(at=at, broker=gone)

    def exchange(self, stream: Random, at: float) -> Exchange | None:
        """Any link for any other one that joins the two parts again: a plan of swaps."""
        removed = stream.choice(self.links)
        part = self._part(removed)
        pairs = [(x, y) for x in part for y in self.brokers if y not in part and {x, y} != set(removed)]
        if not pairs:
            return None
        added = stream.choice(pairs)
        self.links = [link for link in self.links if link != removed] + [added]
        return Exchange(at=at, remove=removed, add=added)

    def _part(self, without: tuple[str, str]) -> list[str]:
        """The brokers on the first one's side of a link."""
        part = [without[0]]
        for here in part:
            part += [n for n in self.neighbours(here) if n not in part and {here, n} != set(without)]
        return part

    def uproot(self, stream: Random, at: float) -> RemoveBroker | None:
        """Any broker: a plan. Which tree it leaves is the planner's choice, so nothing is drawn after it."""
        if len(self.brokers) < 3:
            return None
        gone = stream.choice(self.brokers)
        self.brokers.remove(gone)
        return RemoveBroker(at=at, broker=gone)


def _operations(stream: Random, sketch: Sketch, manner: Manner) -> list[TreeStep]:
    draws = (sketch.swap, sketch.swap, sketch.swap, sketch.exchange, sketch.add, sketch.remove, sketch.remove)
    *others, last = _beginnings(stream, manner)
    found = [stream.choice(draws)(stream, at) for at in others]
    found.append(stream.choice((*draws, sketch.uproot))(stream, last))
    return [step for step in found if step is not None]


def _beginnings(stream: Random, manner: Manner) -> list[float]:
    """Three, each with time to end; or two volleys, of which all meet."""
    starts = [round(stream.uniform(0.2, 0.3) + 0.5 * i, 4) for i in range(3)]
    if manner is Manner.ONE_BY_ONE:
        return starts
    gaps = (0.0, stream.uniform(0.0, 0.01), stream.uniform(0.0, 0.1))
    volleys = starts[:2] if manner is Manner.AT_ONCE else starts[:1]
    return sorted(round(at + stream.choice(gaps) * i, 4) for at in volleys for i in range(stream.randint(2, 4)))


def _drains(stream: Random, moments: Sequence[float], manner: Manner) -> list[Step]:
    """Before the next operation where these come one by one, else sometimes in the middle of all."""
    if manner is Manner.ONE_BY_ONE:
        return [Drain(at=at + 1.5 * OPERATION_SECONDS) for at in moments]
    return [Drain(at=_during(stream, stream.choice(moments)))] if moments and stream.random() < 0.3 else []


def _faults(
    stream: Random, operations: Sequence[TreeStep], lasting: Sequence[str], links: Sequence[tuple[str, str]]
) -> list[Step]:
    """Brokers that are there from the beginning to the end crash, links are cut: as an operation goes on."""
    faults: list[Step] = []
    moments = [step.at for step in operations] or [1.0]
    for broker in stream.sample(lasting, min(len(lasting), stream.randint(0, 2))):
        at = _during(stream, stream.choice(moments))
        faults += [Crash(at=at, broker=broker), Restart(at=at + _outage(stream), broker=broker)]
    for link in stream.sample(links, min(len(links), stream.randint(0, 2))):
        at = _during(stream, stream.choice(moments))
        faults += [Cut(at=at, link=link), Heal(at=at + _outage(stream), link=link)]
    return faults


def _outage(stream: Random) -> float:
    return round(stream.choice((0.005, 0.1, 0.4)) * stream.uniform(0.5, 1.0), 4)


def _during(stream: Random, at: float) -> float:
    """A moment of the operation that begins then."""
    return round(at + stream.choice((0.1, 0.5, 1.0)) * OPERATION_SECONDS * stream.random(), 4)


# Latencies --------------------------------------------------------------------------------------------------


def latencies_of(
    stream: Random, brokers: Sequence[str], clients: Sequence[ScenarioClient]
) -> tuple[tuple[str, str, Span], ...]:
    """Of every two nodes that may come to be linked."""
    between = [(a, b, _latency(stream)) for a, b in combinations(brokers, 2)]
    attached = [(c.id, broker, _client_latency(stream)) for c in clients for broker in brokers]
    return (*between, *attached)


def _latency(stream: Random) -> Span:
    low = LATENCY_FASTEST * stream.choice((1.0, LATENCY_RATIO, LATENCY_RATIO ** stream.random()))
    return Span(low, low * stream.choice((1.0, 1.5)))


def _client_latency(stream: Random) -> Span:
    low = stream.uniform(0.0, LATENCY_CLIENT_MAX)
    return Span(low, low)


# Clients ----------------------------------------------------------------------------------------------------


def clients_of(stream: Random, brokers: Sequence[str], load_until: float) -> list[ScenarioClient]:
    """Two publish, one sees all and answers, the rest draw what they want; everyone may answer."""
    count = stream.randint(CLIENTS_MIN, CLIENTS_MAX)
    lanes = LANES[:count]
    return [_client(stream, i, stream.choice(brokers), lanes, load_until) for i in range(count)]


def _client(stream: Random, index: int, broker: str, lanes: tuple[str, ...], load_until: float) -> ScenarioClient:
    wants = filters_of(stream, index, stream.randint(1, 2))
    if stream.random() < 0.5:
        wants = [stream.choice(WIDE), *wants]
    is_publisher = index < 2
    answers = index == 2 or stream.random() < 0.3
    return ScenarioClient(
        id=f"c{index}",
        broker=broker,
        publish=(_load(stream, lanes, load_until),) if is_publisher else (),
        reply=(_reply(stream, lanes),) if answers else (),
        subscribe=tuple(dict.fromkeys(["EXISTS lane", *wants] if index == 2 else wants)),
        advertise=stream.choice(ADVERTISED) if is_publisher and not answers and stream.random() < 0.5 else (),
        own_events=stream.random() < 0.9,
    )


ADVERTISED = (("EXISTS lane",), ("EXISTS topic", "price > 9"), ("price <= 9", "price > 9"), ("price <= 9",))


def _load(stream: Random, lanes: tuple[str, ...], until: float) -> PublishLoad:
    gap = stream.choice((0.02, 0.03, 0.06))
    return PublishLoad(
        every=Span(gap * 0.2, gap * 1.8),
        start=LOAD_FROM,
        until=until,
        attributes={"topic": Choice(TOPICS), "price": Uniform(0, PRICES), "lane": Choice(lanes)},
    )


def _reply(stream: Random, lanes: tuple[str, ...]) -> Reply:
    """Answers have no price, so that answers are never answered."""
    return Reply(
        to="EXISTS price" if stream.random() < 0.5 else f"price <= {stream.randint(5, PRICES)}",
        attributes={"topic": "sport.re", "lane": Choice(lanes)},
        probability=0.5,
        delay=Span(0.0, stream.choice((0.0, 0.002, 0.02))),
    )


def unrest_of(stream: Random, client: ScenarioClient, index: int, moments: Sequence[float]) -> list[Step]:
    """What a client asks for changes while operations are under way, rarely at other times."""
    if not moments:
        return []
    times = sorted(_during(stream, stream.choice(moments)) for _ in range(stream.randint(0, 5)))
    steps = changes_of_mind(stream, client, index, times)
    if not any(isinstance(s, UnsubscribeStep) for s in steps):
        steps = [*steps, *_loses_covers(stream, client, _during(stream, stream.choice(moments)))]
    return [*steps, *_advertises(stream, client, moments)]


def _loses_covers(stream: Random, client: ScenarioClient, at: float) -> list[Step]:
    """The wide filters go; what they hid has to come to light in the middle of a change."""
    wide = [text for text in client.subscribe if text in WIDE]
    gone: list[Step] = [UnsubscribeStep(at=at, client=client.id, filter=text) for text in wide]
    again = [SubscribeStep(at=at + 0.05, client=client.id, filter=text) for text in wide if stream.random() < 0.5]
    return [*gone, *again]


def _advertises(stream: Random, client: ScenarioClient, moments: Sequence[float]) -> list[Step]:
    steps: list[Step] = []
    for text in client.advertise:
        if stream.random() < 0.5:
            at = _during(stream, stream.choice(moments))
            steps.append(UnadvertiseStep(at=at, client=client.id, filter=text))
            if stream.random() < 0.7:
                later = round(at + stream.choice((0.0, 0.02, 0.3)), 4)
                steps.append(AdvertiseStep(at=later, client=client.id, filter=text))
    return steps
