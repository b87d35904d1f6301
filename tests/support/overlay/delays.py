"""How long events are under way while the tree changes, against the paths before and after (S0 property 6).

All latencies are constant, of clients' links too, so that the bound is exact: an event that takes longer than both
paths was delayed by the reconfiguration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random

from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import AddBroker, RemoveBroker, Swap
from pleach.scenario.values import Span
from pleach.sim.run import run_scenario
from pleach.trace import Record, RecordKind, judge
from support.overlay.changing_trees import Sketch, TreeStep

LATENCY_FASTEST, LATENCY_RATIO = 0.001, 25.0
LATENCY_CLIENT_MAX = 0.01
BEGINS_AT = 0.15
DURATION = 0.6
GAP = 0.012
RECORDED = frozenset(RecordKind) - {RecordKind.SEND}
ROUNDING = 1e-9  # seconds: sums of latencies in another order


@dataclass(frozen=True)
class World:
    """One operation in the middle of a load; where clients are before and after it."""

    scenario: Scenario
    operation: TreeStep
    before: Sketch
    after: Sketch

    def path(self, sketch: Sketch, publisher: str, subscriber: str) -> float:
        """From client to client, in seconds."""
        first, last = self.broker_of(sketch, publisher), self.broker_of(sketch, subscriber)
        latency = self.scenario.latency
        ends = latency.of(publisher, first).low + latency.of(subscriber, last).low
        return ends + self._between(sketch, first)[last]

    def broker_of(self, sketch: Sketch, client: str) -> str:
        """Clients of a broker that has left are at its former neighbour."""
        broker = self.scenario.client(client).broker
        return broker if broker in sketch.brokers else self.before.neighbours(broker)[0]

    def _between(self, sketch: Sketch, start: str) -> dict[str, float]:
        found, waiting = {start: 0.0}, [start]
        while waiting:
            here = waiting.pop()
            for there in sketch.neighbours(here):
                if there not in found:
                    found[there] = found[here] + self.scenario.latency.of(here, there).low
                    waiting.append(there)
        return found

    def allowed(self, publisher: str, subscriber: str) -> float:
        """S0 property 6: the longer of the two paths. Its proof leaves out two clients of a broker that leaves."""
        if self.both_lose_their_broker(publisher, subscriber):
            return self.detour(publisher, subscriber)
        return max(self.path(sketch, publisher, subscriber) for sketch in (self.before, self.after))

    @property
    def around_the_triangle(self) -> float:
        """Over all three links of a swap, in seconds."""
        assert isinstance(self.operation, Swap)
        a, b, c = self.operation.brokers
        return sum(self.scenario.latency.of(*link).low for link in ((a, b), (b, c), (a, c)))

    def both_lose_their_broker(self, publisher: str, subscriber: str) -> bool:
        brokers = {self.scenario.client(client).broker for client in (publisher, subscriber)}
        return isinstance(self.operation, RemoveBroker) and brokers == {self.operation.broker}

    def detour(self, publisher: str, subscriber: str) -> float:
        """Between two clients of b as it leaves: a gets it from the one by way of b, and the other gets it so, too."""
        latency = self.scenario.latency
        b, a = self.broker_of(self.before, publisher), self.broker_of(self.after, publisher)
        over = latency.of(a, b).low
        there, back = (
            (latency.of(client, a).low, latency.of(client, b).low + over) for client in (publisher, subscriber)
        )
        return max(there) + max(back)


def world(seed: int, kind: type[TreeStep], ordering: Ordering, exchange: str = "swaplink") -> World:
    stream = Random(f"delays/{seed}")
    sketch = Sketch.drawn(stream)
    before = Sketch(list(sketch.brokers), list(sketch.links))
    draw = {Swap: sketch.swap, AddBroker: sketch.add, RemoveBroker: sketch.remove}[kind]
    operation = draw(stream, BEGINS_AT)
    assert operation is not None
    clients = tuple(_client(stream, i, before.brokers) for i in range(5))
    pairs = [*combinations(sketch.named, 2), *((c.id, broker) for c in clients for broker in sketch.named)]
    scenario = Scenario(
        name=f"delays {seed}",
        routing=Routing.COVERING,
        ordering=ordering,
        exchange=exchange,
        root=before.brokers[0],
        links=tuple(before.links),
        brokers=tuple(before.brokers),
        duration=DURATION,
        latency=PerLink(Span(0.0, 0.0), tuple((a, b, _latency(stream, clients, a)) for a, b in pairs)),
        clients=clients,
        steps=(operation,),
    )
    return World(scenario, operation, before, sketch)


def _latency(stream: Random, clients: tuple[ScenarioClient, ...], node: str) -> Span:
    if any(client.id == node for client in clients):
        seconds = stream.uniform(0.0, LATENCY_CLIENT_MAX)
    else:
        seconds = LATENCY_FASTEST * stream.choice((1.0, LATENCY_RATIO, LATENCY_RATIO ** stream.random()))
    return Span(seconds, seconds)


def _client(stream: Random, index: int, brokers: list[str]) -> ScenarioClient:
    load = PublishLoad(every=Span(GAP * 0.3, GAP * 1.7), attributes={"said": index})
    return ScenarioClient(
        id=f"c{index}",
        broker=stream.choice(brokers),
        publish=(load,) if index < 3 else (),
        reply=(Reply(to="EXISTS said", attributes={"answered": index}, probability=0.2),),
        subscribe=("EXISTS said", "EXISTS answered"),
    )


@dataclass(frozen=True)
class Delivery:
    event: str
    publisher: str
    subscriber: str
    seconds: float
    allowed: float

    @property
    def excess(self) -> float:
        return self.seconds - self.allowed


def deliveries(setup: World, seed: int) -> Iterator[Delivery]:
    """Of all events published once every subscription was confirmed; the run is clean, or this raises."""
    result = run_scenario(setup.scenario, seed, kinds=RECORDED)
    assert not result.refusals, result.refusals
    if setup.scenario.exchange == "swaplink":
        assert judge(result.records).clean, f"{setup.scenario.name}: {judge(result.records).violations[:3]}"
    bounds: dict[tuple[str, str], float] = {}
    published: dict[str, Record] = {}
    for record in result.records:
        if record.kind == RecordKind.PUBLISH:
            published[record.event] = record
        elif record.kind == RecordKind.DELIVER:
            ends = published[record.event].node, record.node
            if ends not in bounds:
                bounds[ends] = setup.allowed(*ends)
            yield Delivery(record.event, *ends, record.at - published[record.event].at, bounds[ends])
