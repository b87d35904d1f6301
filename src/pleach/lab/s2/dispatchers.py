"""S2's setting (§5): a tree of dispatchers of which some subscribe and all publish, and one link is exchanged.

S2 says how many dispatchers there are (up to 200), which share of them subscribes (20% or 80%) and how often each
publishes (1 or 50 events per second). The rest stands in a report that we do not have, and is our choice: at most four
neighbours, links of 1 to 5 ms, 140 patterns, six of them wanted by each subscriber, one pattern in each event. Routing
is by identity, as S2 §2 describes. So shares compare, absolute numbers do not.

The overhead is the witness's: hops of entries, of misrouted events, of the protocol's own messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from pleach.lab.exchanges.consequences import costs, run_exchange
from pleach.lab.experiment import Sample
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Exchange
from pleach.scenario.values import Choice, Span

DEGREE_MAX = 4
LATENCY_MIN, LATENCY_MAX = 0.001, 0.005  # seconds, of a link; constant
PATTERNS = 140
PATTERNS_EACH = 6  # wanted by a subscriber
LOAD_FROM = 1.8
EXCHANGE_AT = 2.0  # subscriptions are everywhere, and events are under way
LOAD_UNTIL = 2.6  # all protocols are done by then
DURATION = 2.7


@dataclass(frozen=True)
class Dispatchers:
    count: int
    density: float  # share of them that subscribe
    events_per_second: float  # of each


def dispatchers_scenario(setting: Dispatchers, seed: int, exchange: str) -> Scenario:
    """The same tree, subscribers, events and exchange for every protocol."""
    stream = Random(f"dispatchers/{setting.count}/{setting.density}/{seed}")
    brokers = tuple(f"d{i}" for i in range(setting.count))
    links = _tree(stream, brokers)
    removed = stream.choice(links)
    added = _replacement(stream, links, removed)
    latencies = tuple((a, b, _latency(stream)) for a, b in (*links, added))
    subscribers = frozenset(stream.sample(brokers, round(setting.count * setting.density)))
    return Scenario(
        name=f"{setting.count} dispatchers {seed}",
        routing=Routing.IDENTITY,
        ordering=Ordering.NONE,
        exchange=exchange,
        root=brokers[0],
        links=tuple(links),
        brokers=brokers,
        duration=DURATION,
        latency=PerLink(Span(0.0, 0.0), latencies),  # clients sit at their dispatchers
        clients=tuple(_client(stream, setting, broker, is_subscriber=broker in subscribers) for broker in brokers),
        steps=(Exchange(at=EXCHANGE_AT, remove=removed, add=added),),
    )


def overheads(setting: Dispatchers, seed: int, exchange: str) -> Iterator[Sample]:
    exchanged = run_exchange(dispatchers_scenario(setting, seed, exchange), seed)
    assert exchanged.is_quiet
    assert not exchanged.refusals, exchanged.refusals
    yield from costs(exchanged)


def _tree(stream: Random, brokers: tuple[str, ...]) -> list[tuple[str, str]]:
    links: list[tuple[str, str]] = []
    degree = dict.fromkeys(brokers, 0)
    for i in range(1, len(brokers)):
        to = stream.choice([broker for broker in brokers[:i] if degree[broker] < DEGREE_MAX])
        links.append((to, brokers[i]))
        degree[to] += 1
        degree[brokers[i]] += 1
    return links


def _replacement(stream: Random, links: list[tuple[str, str]], removed: tuple[str, str]) -> tuple[str, str]:
    """Any link that joins the two parts again, and is not the same one."""
    parts = [_part(links, removed, start) for start in removed]
    while True:
        added = (stream.choice(parts[0]), stream.choice(parts[1]))
        if added != removed:
            return added


def _part(links: list[tuple[str, str]], removed: tuple[str, str], start: str) -> list[str]:
    """The dispatchers on one side of a link."""
    neighbours: dict[str, list[str]] = {}
    for a, b in links:
        if (a, b) != removed:
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
    found = {start: None}
    for here in (waiting := [start]):
        fresh = [there for there in neighbours.get(here, ()) if there not in found]
        found.update(dict.fromkeys(fresh))
        waiting.extend(fresh)
    return list(found)


def _latency(stream: Random) -> Span:
    seconds = stream.uniform(LATENCY_MIN, LATENCY_MAX)
    return Span(seconds, seconds)


def _client(stream: Random, setting: Dispatchers, broker: str, *, is_subscriber: bool) -> ScenarioClient:
    gap = 1.0 / setting.events_per_second
    load = PublishLoad(
        every=Span(0.2 * gap, 1.8 * gap),
        start=LOAD_FROM + gap * stream.random(),
        until=LOAD_UNTIL,
        attributes={"pattern": Choice(tuple(range(PATTERNS)))},
    )
    wanted = stream.sample(range(PATTERNS), PATTERNS_EACH) if is_subscriber else ()
    subscribe = tuple(f"pattern = {pattern}" for pattern in wanted)
    return ScenarioClient(id=f"client-{broker}", broker=broker, publish=(load,), subscribe=subscribe)
