"""The speed of the simulator: message hops per second, against a SimPy model of the same tree.

Both carry the same events through the same tree of 100 brokers, every event to every broker and on to every client,
over links with latency. SimPy's model does no more than store and forward: an inbox per node, a process per link.
Ours runs the real broker, with its table, its seam and its confirmations.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from functools import partial
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from pleach.bench.measurement import Measurement
from pleach.errors import MissingPartError
from pleach.scenario.model import PerLink, PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun

BROKERS = 100
CLIENTS = 50
LATENCY = Span(0.001, 0.005)  # S0's default scenario
LOAD_STARTS = 0.5  # seconds: by then every subscription is everywhere
BAR = 3.0
REPEATS = 3


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    events = 300 if quick else 1_000
    for routing in (Routing.FLOODING, Routing.SIMPLE, Routing.COVERING):
        scenario = tree_scenario(routing, events, seed)
        rates, ratios = [], []
        for _ in range(REPEATS):  # in turn, so that a busy machine slows both
            theirs = _simpy_rate(scenario, seed)
            ours = _our_rate(scenario, seed)
            rates.append(ours)
            ratios.append(ours / theirs)
        ratio = median(ratios)
        case = f"{routing.value}, {BROKERS} brokers, {CLIENTS} clients, {events} events"
        against = "SimPy store-and-forward"
        yield Measurement("sim", case, median(rates), "hops/s", against, ratio, BAR, ratio >= BAR)


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
    clients = [ScenarioClient(id=f"c{i}", broker=rng.choice(names), subscribe=("x >= 0",)) for i in range(CLIENTS)]
    load = PublishLoad(every=Span(0.01, 0.01), start=LOAD_STARTS, count=events, attributes={"x": 1})
    clients.append(ScenarioClient(id="p", broker=names[0], publish=(load,)))
    return Scenario(
        name="bench",
        routing=routing,
        root=names[0],
        links=tuple(links),
        brokers=tuple(names),
        duration=LOAD_STARTS + events * 0.01 + 1,
        latency=PerLink(LATENCY),
        clients=tuple(clients),
    )


def _our_rate(scenario: Scenario, seed: int) -> float:
    """Hops per second of the load. Subscriptions are in place before, since the model has none."""
    run = ScenarioRun(scenario, seed, frozenset())
    run.advance(LOAD_STARTS / 2)
    hops = run.sim.hops
    gc.collect()
    start = perf_counter()
    result = run.finish()
    seconds = perf_counter() - start
    assert result.quiet
    return (result.hops - hops) / seconds


def _simpy_rate(scenario: Scenario, seed: int) -> float:
    model = StoreAndForward(scenario, LATENCY, seed)
    gc.collect()
    start = perf_counter()
    model.environment.run()
    return model.hops / (perf_counter() - start)


# The reference: a tree of store-and-forward nodes in SimPy, in the style of its manual --------------------------------


class StoreAndForward:
    """Carries the last client's load to every broker and every other client."""

    def __init__(self, scenario: Scenario, latency: Span, seed: int) -> None:
        try:
            import simpy  # noqa: PLC0415 - only this measurement needs it
        except ImportError:
            raise MissingPartError("SimPy is not installed: pip install 'pleach[bench]'") from None
        self.hops = 0
        self.environment = simpy.Environment()
        self._store: Callable[[], Any] = partial(simpy.Store, self.environment)
        self._latency = latency
        self._rng = Random(seed)
        self._inboxes = {name: self._store() for name in scenario.brokers}
        self._queues: dict[str, dict[str, Any]] = {name: {} for name in scenario.brokers}
        *readers, publisher = scenario.clients
        for a, b in scenario.links:
            self._connect(a, b, self._inboxes[b])
            self._connect(b, a, self._inboxes[a])
        for reader in readers:
            inbox = self._store()
            self._connect(reader.broker, reader.id, inbox)
            self.environment.process(self._read(inbox))
        for name in scenario.brokers:
            self.environment.process(self._forward(name))
        load = publisher.publish[0]
        self.environment.process(self._publish(self._inboxes[publisher.broker], load.count or 0, load.every.low))

    def _connect(self, sender: str, receiver: str, inbox: Any) -> None:
        queue = self._queues[sender][receiver] = self._store()
        self.environment.process(self._carry(queue, sender, inbox))

    def _carry(self, queue: Any, sender: str, inbox: Any) -> Generator[Any, Any, None]:
        while True:
            event = yield queue.get()
            yield self.environment.timeout(self._rng.uniform(self._latency.low, self._latency.high))
            self.hops += 1
            yield inbox.put((sender, event))

    def _forward(self, name: str) -> Generator[Any, Any, None]:
        while True:
            sender, event = yield self._inboxes[name].get()
            for receiver, queue in self._queues[name].items():
                if receiver != sender:
                    yield queue.put(event)

    def _read(self, inbox: Any) -> Generator[Any, Any, None]:
        while True:
            yield inbox.get()

    def _publish(self, inbox: Any, count: int, every: float) -> Generator[Any, Any, None]:
        for number in range(count):
            yield inbox.put(("publisher", number))
            yield self.environment.timeout(every)
