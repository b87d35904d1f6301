"""S2 Fig. 4 and 5: savings of the reconfiguration path against the strawman, by size and load.

All three protocols have the same trees, subscribers, events and exchanges, so that few runs suffice. A saving is a
share of the strawman's overhead in hops, both averaged over all exchanges. The overhead is S2's (`witness.py`):
(un)subscriptions, misrouted events, the protocol's own messages.

In S2 the old link is broken from the beginning and carries nothing; here it carries events until it is taken down. The
resulting second copies are counted apart: figures exclude them, findings give both values.

S2 gives the number of dispatchers (up to 200), the share that subscribes (20% or 80%) and the rate of publications (1
or 50 events per second). The rest is in a report that we do not have, and is our choice: at most four neighbours, links
of 1 to 5 ms, 140 patterns, six of them per subscriber, one pattern in each event. Routing is by identity, as S2 §2
describes. So shares are comparable, absolute numbers are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from pleach.lab.exchanges.consequences import costs, run_exchange
from pleach.lab.experiment import Case, Sample, Size
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


STRAWMAN, DEFERRED, PATH = "strawman", "deferred", "path"
COMPARED = (DEFERRED, PATH)
SPARSE, DENSE = 0.2, 0.8  # share of dispatchers that subscribe
LOW, HIGH = 1, 50  # events per second of each dispatcher
COUNTED = ("entries", "protocol_messages", "dead_ends", "second_copies")
OVERHEAD, WITH_COPIES, SAVED = "overhead", "overhead with copies", "saved"

DISPATCHERS = {
    Size.QUICK: (10, 20),
    Size.USUAL: (20, 50, 100, 200),
    Size.FULL: (20, 40, 60, 80, 100, 120, 140, 160, 180, 200),
}
EXCHANGES = {Size.QUICK: 1, Size.USUAL: 3, Size.FULL: 10}
SETTINGS = ((SPARSE, LOW), (DENSE, LOW), (SPARSE, HIGH))  # Fig. 4 top and bottom, Fig. 5


def cases(size: Size) -> list[Case]:
    return [
        {"dispatchers": count, "density": density, "load": load, "exchanges": EXCHANGES[size]}
        for density, load in SETTINGS
        for count in DISPATCHERS[size]
    ]


def cost(case: Case) -> float:
    return float(case["exchanges"]) * float(case["dispatchers"]) * (25.0 + float(case["load"]))


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Per exchange, in hops; and what is saved by the exchanges of this seed."""
    exchanges = int(case["exchanges"])
    found = {protocol: _hops(case, seed, protocol) for protocol in (STRAWMAN, *COMPARED)}
    overhead = {protocol: (hops.total() - hops["second_copies"]) / exchanges for protocol, hops in found.items()}
    for protocol, hops in found.items():
        for metric in COUNTED:
            yield Sample(f"{metric} {protocol}", hops[metric] / exchanges)
        yield Sample(f"{WITH_COPIES} {protocol}", hops.total() / exchanges)
        yield Sample(f"{OVERHEAD} {protocol}", overhead[protocol])
    for protocol in COMPARED:
        yield Sample(f"{SAVED} {protocol}", 1.0 - overhead[protocol] / overhead[STRAWMAN])


def _hops(case: Case, seed: int, protocol: str) -> Counter[str]:
    """Of all exchanges together, each in a tree of its own."""
    setting = Dispatchers(int(case["dispatchers"]), float(case["density"]), float(case["load"]))
    exchanges = int(case["exchanges"])
    total: Counter[str] = Counter()
    for number in range(seed * exchanges, (seed + 1) * exchanges):
        total.update({s.metric: round(s.value) for s in overheads(setting, number, protocol) if s.metric in COUNTED})
    return total
