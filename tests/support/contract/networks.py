"""Random networks for the contract of all routing policies: trees, clients, loads, a timeline with faults.

`random_scenario(seed)` is a function of the seed alone and says nothing about routing; `combined` adds that. So
every combination of policy and mode meets the same clients and the same timeline, and can be compared seed by seed.

What is drawn is what breaks routing: filters that equal, cover, overlap and merge with each other beside filters of
one client alone (shared ones would hide a lost entry), wide subscriptions that go while narrow ones stay,
subscriptions to the same filter again, links of which one is 25 times as slow as the next, crashes and cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from pleach.scenario.model import PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import (
    AdvertiseStep,
    Crash,
    Cut,
    Drain,
    Heal,
    Restart,
    Step,
    SubscribeStep,
    UnadvertiseStep,
    UnsubscribeStep,
)
from pleach.scenario.values import Attributes, Choice, Span, Uniform

DURATION = 8.0  # seconds
LOAD_UNTIL = 7.0
BROKERS_MAX = 30
CLIENTS_MIN, CLIENTS_MAX = 5, 15
LATENCY_FASTEST, LATENCY_RATIO = 0.004, 25.0  # of links between brokers
LATENCY_CLIENT = Span(0.001, 0.003)
PRICES = 20  # prices are 0 … 20
TOPICS = ("news.ab", "news.cd", "sport.ab", "sport.cd")
LANES = tuple(f"lane{i}" for i in range(CLIENTS_MAX))  # one for each client: filters that nobody shares


@dataclass(frozen=True)
class Combination:
    """One way to route. `name` is what reports and the replay command use."""

    routing: Routing
    hierarchical: bool
    advertisements: bool
    merge_bound: float = 0.0

    @property
    def name(self) -> str:
        policy = f"{self.routing}{self.merge_bound:g}" if self.merge_bound else str(self.routing)
        return f"{policy}/{self.mode}"

    @property
    def mode(self) -> str:
        shape = "hierarchical" if self.hierarchical else "peer-to-peer"
        return f"{shape}/advertisements" if self.advertisements else shape


COMBINATIONS = tuple(
    Combination(routing, hierarchical, advertisements, bound)
    for hierarchical in (False, True)
    for advertisements in (False, True)
    for routing, bound in (*((each, 0.0) for each in Routing), (Routing.MERGING, 0.3))
)
BY_NAME = {combination.name: combination for combination in COMBINATIONS}


def combined(scenario: Scenario, combination: Combination) -> Scenario:
    """The scenario under one way of routing; steps that only advertisements give a meaning to go with them."""
    steps = scenario.steps
    if not combination.advertisements:
        steps = tuple(step for step in steps if not isinstance(step, (AdvertiseStep, UnadvertiseStep)))
    return msgspec.structs.replace(
        scenario,
        routing=combination.routing,
        hierarchical=combination.hierarchical,
        advertisements=combination.advertisements,
        merge_bound=combination.merge_bound,
        steps=steps,
    )


def random_scenario(seed: int) -> Scenario:
    """A network and all that happens in it; routing is left to `combined`."""
    stream = Random(f"network/{seed}")
    brokers = tuple(f"b{i}" for i in range(_broker_count(stream)))
    links = _tree(stream, brokers)
    clients = _clients(stream, brokers)
    faults = _faults(stream, brokers, links)
    steps = [*_drains(stream), *faults]
    for index, client in enumerate(clients):
        moments = sorted(_moment(stream) for _ in range(stream.randint(0, 5)))
        steps += changes_of_mind(stream, client, index, moments)
        steps += _advertising(stream, client)
    return Scenario(
        name=f"network {seed}",
        routing=Routing.SIMPLE,
        root=stream.choice(brokers),
        links=links,
        brokers=brokers,
        duration=DURATION,
        latency=PerLink(LATENCY_CLIENT, tuple((a, b, _latency(stream)) for a, b in links)),
        clients=tuple(clients),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


# The tree ---------------------------------------------------------------------------------------------------


def _broker_count(stream: Random) -> int:
    """Mostly small: short runs find as much; but every tenth network is a large one."""
    return stream.randint(13, BROKERS_MAX) if stream.random() < 0.1 else stream.randint(2, 12)


def _tree(stream: Random, brokers: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each broker joins an earlier one: any (bushy), the last (a chain), or the first (a star)."""
    shape = stream.choice(("bushy", "bushy", "chain", "star"))
    links = []
    for i in range(1, len(brokers)):
        is_regular = stream.random() < 0.8
        j = {"chain": i - 1, "star": 0}.get(shape, -1) if is_regular else -1
        links.append((brokers[stream.randrange(i) if j < 0 else j], brokers[i]))
    return tuple(links)


def _latency(stream: Random) -> Span:
    low = LATENCY_FASTEST * stream.choice((1.0, LATENCY_RATIO, LATENCY_RATIO ** stream.random()))
    return Span(low, low * stream.choice((1.0, 1.5)))


# Clients ----------------------------------------------------------------------------------------------------


def _clients(stream: Random, brokers: tuple[str, ...]) -> list[ScenarioClient]:
    count = stream.randint(CLIENTS_MIN, CLIENTS_MAX)
    lanes = LANES[:count]
    publishers = max(1, count // 3)
    return [_client(stream, i, brokers, lanes, publishes=i < publishers) for i in range(count)]


def _client(
    stream: Random, index: int, brokers: tuple[str, ...], lanes: tuple[str, ...], *, publishes: bool
) -> ScenarioClient:
    load = _load(stream, lanes) if publishes else None
    replies = (_reply(stream, lanes),) if stream.random() < 0.15 else ()
    wants = [] if publishes and stream.random() < 0.5 else filters_of(stream, index, stream.randint(0, 3))
    advertises = _advertised_texts(stream, load) if load and stream.random() < 0.4 else ()
    return ScenarioClient(
        id=f"c{index}",
        broker=stream.choice(brokers),
        publish=(load,) if load else (),
        reply=replies,
        subscribe=tuple(dict.fromkeys(wants)),
        advertise=advertises if not replies else (),
        own_events=stream.random() < 0.9,
    )


def _load(stream: Random, lanes: tuple[str, ...]) -> PublishLoad:
    gap = stream.uniform(0.08, 0.3)
    return PublishLoad(
        every=Span(gap * 0.5, gap * 1.5),
        start=stream.uniform(0.0, 1.0),
        until=LOAD_UNTIL,
        attributes=_attributes(stream, lanes),
    )


def _attributes(stream: Random, lanes: tuple[str, ...]) -> Attributes:
    attributes: Attributes = {
        "topic": Choice(TOPICS),
        "price": Uniform(0, PRICES),
        "lane": Choice(lanes),
    }
    if stream.random() < 0.3:
        attributes["topic"] = stream.choice(TOPICS)
    if stream.random() < 0.2:
        del attributes["price"]
    if stream.random() < 0.3:
        low = stream.randint(0, PRICES // 2)
        attributes["price"] = Uniform(low, low + PRICES / 4)  # floats, in a part of the range
    return attributes


def _reply(stream: Random, lanes: tuple[str, ...]) -> Reply:
    """Answers carry no price and a topic of their own, so that answers are never answered."""
    return Reply(
        to=f"price <= {stream.randint(1, PRICES)} AND topic LIKE 'news.%'",
        attributes={"topic": "sport.re", "lane": Choice(lanes)},
        probability=0.5,
        delay=Span(0.0, 0.02),
    )


# Filters ----------------------------------------------------------------------------------------------------


def filters_of(stream: Random, index: int, count: int) -> list[str]:
    return [_filter(stream, index) for _ in range(count)]


def _filter(stream: Random, index: int) -> str:
    low = stream.randint(0, PRICES - 4)
    high = low + stream.randint(1, 8)
    step = 3 * stream.randrange(PRICES // 3)
    topic = stream.choice(TOPICS)
    lane = LANES[index]
    return stream.choice(
        (
            f"lane = '{lane}'",  # of this client alone
            f"lane = '{lane}' AND price > {low}",
            f"lane = '{lane}' AND topic LIKE '%.ab'",
            f"price BETWEEN {low} AND {high}",  # overlap and merge with others
            f"price BETWEEN {step} AND {step + 2}",  # … with gaps between that imperfect merging closes
            f"topic = '{topic}' AND price BETWEEN {step} AND {step + 2}",
            f"price >= {low} AND price < {high}",
            f"price > {low}",
            f"topic = '{topic}' AND price BETWEEN {low} AND {high}",
            f"topic = '{topic}' AND price <= {high}",
            f"topic = '{topic}'",
            f"topic LIKE '{topic[:4]}%'",
            f"topic LIKE '{topic[:4]}%' AND price > {low}",
            f"topic IN ('{topic}', '{stream.choice(TOPICS)}')",
            f"topic = '{topic}' OR price = {low}",
            "EXISTS lane",  # wide: covers what has a lane
            "EXISTS price",
            "NOT EXISTS price",
        )
    )


def _advertised_texts(stream: Random, load: PublishLoad) -> tuple[str, ...]:
    """All of what the client publishes, in one or in two pieces; sometimes only a part: the rest is refused."""
    del load
    cut = stream.randint(4, PRICES - 4)
    return stream.choice(
        (
            ("EXISTS lane",),
            ("EXISTS topic", f"price > {cut}"),
            (f"price <= {cut}", f"price > {cut}", "NOT EXISTS price"),
            (f"price <= {cut}",),
        )
    )


# The timeline -----------------------------------------------------------------------------------------------


def _moment(stream: Random, low: float = 0.2, high: float = LOAD_UNTIL) -> float:
    return round(stream.uniform(low, high), 3)


def _drains(stream: Random) -> list[Step]:
    return [Drain(at=_moment(stream)) for _ in range(stream.randint(1, 3))]


def changes_of_mind(stream: Random, client: ScenarioClient, index: int, moments: Sequence[float]) -> list[Step]:
    """The client's subscriptions come and go, and some come again. `moments` rise."""
    active = list(client.subscribe)
    known = list(client.subscribe)
    steps: list[Step] = []
    for at in moments:
        if active and stream.random() < 0.45:
            gone = active.pop(stream.randrange(len(active)))
            steps.append(UnsubscribeStep(at=at, client=client.id, filter=gone))
            if stream.random() < 0.25:  # at once again
                steps.append(SubscribeStep(at=at, client=client.id, filter=gone))
                active.append(gone)
            continue
        is_again = known and stream.random() < 0.4
        wanted = stream.choice(known) if is_again else _filter(stream, index)
        steps.append(SubscribeStep(at=at, client=client.id, filter=wanted))
        known.append(wanted)
        if wanted not in active:
            active.append(wanted)
    return steps


def _advertising(stream: Random, client: ScenarioClient) -> list[Step]:
    """Take an advertisement back, and perhaps make it again; in between, events are refused, not lost."""
    steps: list[Step] = []
    for text in client.advertise:
        if stream.random() < 0.5:
            at = _moment(stream)
            steps.append(UnadvertiseStep(at=at, client=client.id, filter=text))
            if stream.random() < 0.7:
                steps.append(AdvertiseStep(at=_moment(stream, at), client=client.id, filter=text))
    return steps


def _faults(stream: Random, brokers: tuple[str, ...], links: tuple[tuple[str, str], ...]) -> list[Step]:
    faults: list[Step] = []
    if stream.random() < 0.3:
        for broker in stream.sample(brokers, min(len(brokers), stream.randint(1, 2))):
            start = _moment(stream, 0.2, LOAD_UNTIL - 1)
            faults += [Crash(at=start, broker=broker), Restart(at=start + _outage(stream), broker=broker)]
    if stream.random() < 0.3:
        for link in stream.sample(links, min(len(links), stream.randint(1, 2))):
            start = _moment(stream, 0.2, LOAD_UNTIL - 1)
            faults += [Cut(at=start, link=link), Heal(at=start + _outage(stream), link=link)]
    return faults


def _outage(stream: Random) -> float:
    return round(stream.uniform(0.01, 1.0), 3)
