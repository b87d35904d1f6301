"""A small network to play the papers' examples on: real brokers and clients in virtual time, every message noted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Observe, Observed
from pleach.core.events.language import parse_filter
from pleach.core.messages import Layer, Message, Node
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.router import RoutingConfig
from pleach.sim.simulator import Simulator

LATENCY = (0.01, 0.01)

# Seven brokers, as in S1 Figures 2.3 and 2.4 (whose lines our copy has lost):
#
#              B1
#           ┌──┴──┐
#           B2    B3
#          ┌┴─┐  ┌┴─┐
#          B4 B5 B6 B7
PARENT: dict[Node, Node | None] = {
    "B1": None, "B2": "B1", "B3": "B1", "B4": "B2", "B5": "B2", "B6": "B3", "B7": "B3",
}  # fmt: skip
BROKERS = tuple(PARENT)
LINKS = tuple((parent, child) for child, parent in PARENT.items() if parent)


ROUTED = [name for name, policy in POLICIES.items() if not policy.floods]
CONFIGS = [RoutingConfig(*choice) for choice in product(POLICIES, (False, True), (False, True))]
WIDE, NARROW = "price > 0", "price > 50"


@dataclass(frozen=True)
class Hop:
    sender: Node
    receiver: Node
    message: Message

    @property
    def kind(self) -> str:
        return type(self.message).__name__


@dataclass
class SmallTree:
    """`hops` are the messages between brokers since `forget`; `delivered` what each client has got."""

    config: RoutingConfig
    clients: dict[Node, Node]  # client → broker
    hops: list[Hop] = field(default_factory=list)
    observed: list[tuple[Node, Observe]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sim = Simulator("small tree")
        self.brokers = {name: self._broker(name) for name in BROKERS}
        self.machines = {name: ClientMachine(name, broker) for name, broker in self.clients.items()}
        for name, machine in (*self.brokers.items(), *self.machines.items()):
            self.sim.add(name, machine)
        for a, b in (*LINKS, *self.clients.items()):
            self.sim.link(a, b, LATENCY)
        self.sim.on_send = self._note
        self.sim.on_observe = lambda _at, node, seen: self.observed.append((node, seen))
        for name, machine in self.machines.items():
            self.sim.perform(name, machine.attach())
        self.settle()

    def _broker(self, name: Node) -> Broker:
        neighbours = [b if a == name else a for a, b in LINKS if name in (a, b)]
        return Broker(name, self.config, neighbours=neighbours, parent=PARENT[name])

    def _note(self, _at: float, sender: Node, receiver: Node, message: Message) -> None:
        if sender in self.brokers and receiver in self.brokers:
            self.hops.append(Hop(sender, receiver, message))

    # What clients do: each returns once all is quiet, with the messages between brokers that it caused ------------

    def subscribe(self, client: Node, text: str) -> list[Hop]:
        return self._do(client, self.machines[client].subscribe(text, parse_filter(text)))

    def unsubscribe(self, client: Node, text: str) -> list[Hop]:
        return self._do(client, self.machines[client].unsubscribe(text))

    def advertise(self, client: Node, text: str) -> list[Hop]:
        return self._do(client, self.machines[client].advertise(text, parse_filter(text)))

    def unadvertise(self, client: Node, text: str) -> list[Hop]:
        return self._do(client, self.machines[client].unadvertise(text))

    def publish(self, client: Node, **attributes: str | int) -> list[Hop]:
        return self._do(client, self.machines[client].publish(attributes))

    def _do(self, client: Node, effects: Iterable) -> list[Hop]:
        before = len(self.hops)
        self.sim.perform(client, list(effects))
        self.settle()
        return self.hops[before:]

    def later(self, at: float, client: Node, action: str, *arguments: object) -> None:
        """Plan something for a time after now, without waiting for it."""
        machine = self.machines[client]
        self.sim.at(self.sim.now + at, lambda: self.sim.perform(client, getattr(machine, action)(*arguments)))

    def settle(self) -> None:
        self.sim.run()
        assert self.sim.drain()

    # What came of it -----------------------------------------------------------------------------------------

    def delivered(self, client: Node) -> list[str]:
        """The ids of the events that the client got, in order."""
        return [str(s.event.id) for node, s in self.observed if node == client and s.kind is Observed.DELIVER]

    def seen(self, client: Node, kind: Observed) -> list[Observe]:
        return [seen for node, seen in self.observed if node == client and seen.kind is kind]

    def table(self, broker: Node) -> dict[Node, list[str]]:
        """The remote entries of a broker: filters by neighbour."""
        router = self.brokers[broker].router
        received = partial(router.received_from, Layer.SUBSCRIPTIONS)
        return {n: [e.filter.text for e in received(n)] for n in sorted(router.neighbours) if received(n)}

    def tables(self) -> dict[Node, dict[Node, list[str]]]:
        return {broker: table for broker in BROKERS if (table := self.table(broker))}


def links(hops: Iterable[Hop], kind: str) -> list[tuple[Node, Node]]:
    """Where messages of a kind went, sorted."""
    return sorted((hop.sender, hop.receiver) for hop in hops if hop.kind == kind)


def kinds(hops: Iterable[Hop]) -> set[str]:
    return {hop.kind for hop in hops}


def from_(broker: str) -> list[tuple[str, str]]:
    """All links, each in the direction away from a broker, sorted."""
    reached, found = [broker], []
    for here in reached:
        for a, b in LINKS:
            there = b if a == here else a if b == here else here
            if there not in reached:
                reached.append(there)
                found.append((here, there))
    return sorted(found)


def config_id(config: RoutingConfig) -> str:
    shape = "hierarchical" if config.hierarchical else "peer-to-peer"
    return f"{config.policy}-{shape}{'-advertisements' if config.advertisements else ''}"
