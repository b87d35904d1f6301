"""How fast the simulator is: message hops per second, against a SimPy model of the same tree.

Both carry the same events through the same tree of 100 brokers, every event to every broker and on to every client,
over links with latency. SimPy's model does no more than store and forward: an inbox per node, a process per link.
Ours runs the real broker, with its table, its seam and its confirmations.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from random import Random
from time import perf_counter

from pleach.bench.report import Measurement
from pleach.bench.simpy_model import simpy_hops
from pleach.scenario.model import Client, PerLink, Publish, Routing, Scenario
from pleach.scenario.values import Span
from pleach.sim.run import run_scenario

BROKERS = 100
CLIENTS = 50
LATENCY = Span(0.001, 0.005)  # S0's default scenario
BAR = 3.0
REPEATS = 3


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    events = 300 if quick else 1_000
    for routing in (Routing.FLOODING, Routing.SIMPLE, Routing.COVERING):
        scenario = tree_scenario(routing, events, seed)
        ratios = []
        rates = []
        for _ in range(REPEATS):  # side by side, so that a busy machine slows both
            simpy_rate = _rate(lambda s=scenario: simpy_hops(s, LATENCY, seed))  # type: ignore[misc]
            our_rate = _rate(lambda s=scenario: _our_hops(s, seed))  # type: ignore[misc]
            rates.append(our_rate)
            ratios.append(our_rate / simpy_rate)
        ratio = sorted(ratios)[REPEATS // 2]
        yield Measurement(
            "sim",
            f"{routing.value}, {BROKERS} brokers, {CLIENTS} clients, {events} events",
            sorted(rates)[REPEATS // 2],
            "hops/s",
            "SimPy store-and-forward",
            ratio,
            BAR,
            ratio >= BAR,
        )


def tree_scenario(routing: Routing, events: int, seed: int) -> Scenario:
    """A random tree of at most four neighbours per broker; every client wants everything."""
    rng = Random(seed)
    names = [f"b{i}" for i in range(BROKERS)]
    degree = dict.fromkeys(names, 0)
    links = []
    for i in range(1, BROKERS):
        parent = rng.choice([name for name in names[:i] if degree[name] < 4])
        links.append((parent, names[i]))
        degree[parent] += 1
        degree[names[i]] += 1
    clients = [Client(id=f"c{i}", broker=rng.choice(names), subscribe=("x >= 0",)) for i in range(CLIENTS)]
    load = Publish(every=Span(0.01, 0.01), start=0.5, count=events, attributes={"x": 1})
    clients.append(Client(id="p", broker=names[0], publish=(load,)))
    return Scenario(
        name="bench",
        routing=routing,
        root=names[0],
        links=tuple(links),
        brokers=tuple(names),
        duration=0.5 + events * 0.01 + 1,
        latency=PerLink(LATENCY),
        clients=tuple(clients),
    )


def _rate(work: Callable[[], int]) -> float:
    gc.collect()
    start = perf_counter()
    hops = work()
    return hops / (perf_counter() - start)


def _our_hops(scenario: Scenario, seed: int) -> int:
    result = run_scenario(scenario, seed, kinds=frozenset())
    assert result.quiet
    return result.hops
