"""What must hold of two tables that are rebuilt in turn, at every moment but while a network finds back.

One of them is complete: that which the root is not building, for it is the first to begin a round. The other one may
lack anything, and have nothing that does not follow from what clients want.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.events.algebra import covers
from pleach.core.events.filter import Filter
from pleach.core.messages import Layer, Node, Parity
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.router import Router
from support.contract.judgement import expected_export
from support.contract.networks import LANES, PRICES, TOPICS

SAMPLES: tuple[dict[str, Any], ...] = tuple(  # all that the filters of these networks can tell apart
    {"topic": topic, "lane": lane} | ({} if price < 0 else {"price": price / 2})
    for topic in (*TOPICS, "sport.re")
    for lane in LANES
    for price in range(-1, 2 * PRICES + 2)
)


def flaws_of_twins(brokers: Mapping[Node, Broker], clients: Mapping[Node, ClientMachine]) -> list[str]:
    root = next(broker for broker in brokers.values() if broker.router.parent is None)
    complete = root.router.building.other
    flaws = []
    for name, client in sorted(clients.items()):
        flaws += _flaws_of_client(brokers[client.broker], name, client, complete)
    for name, broker in sorted(brokers.items()):
        for tree, branch in broker.router.wiring.branches.items():
            flaws += _strangers(broker, tree)
            for neighbour in branch.neighbours:
                there = brokers[neighbour].router.tables
                tables = broker.router.tables[tree, complete], there[tree, complete]
                flaws += [f"tree {tree!r}: {flaw}" for flaw in _flaws_of_link(broker, neighbour, *tables)]
                expected = _expected(broker, neighbour, Layer.SUBSCRIPTIONS, tables[0])
                received = there[tree, complete.other].received_from(Layer.SUBSCRIPTIONS, name)
                if not _follows(received, expected):
                    flaws.append(f"tree {tree!r}: {neighbour} is told by {name} what does not follow")
    return flaws


def _flaws_of_client(broker: Broker, name: Node, client: ClientMachine, complete: Parity) -> list[str]:
    subscriptions, advertisements = client._state.subscriptions, client._state.advertisements
    flaws = []
    for (tree, parity), table in broker.router.tables.items():
        advertised = advertisements if tree == broker.router.wiring.home else {}
        for layer, wanted in ((Layer.SUBSCRIPTIONS, subscriptions), (Layer.ADVERTISEMENTS, advertised)):
            has, wants = frozenset(table.received_from(layer, name)), _entries(name, wanted)
            if has - wants or (parity is complete and wants - has):
                flaws.append(f"{broker.name} has other {layer.name.lower()} of {name} than it wants, for tree {tree!r}")
    if name not in broker.sessions or broker.sessions.subscriptions(name) != subscriptions:
        return [*flaws, f"{broker.name} knows other names of {name} than it has"]
    known = broker.sessions._clients[name]
    if known.advertisements != advertisements or known.confirmed.keys() != advertisements.keys():
        flaws.append(f"{broker.name} knows other advertisements of {name} than it has")
    return flaws


def _entries(client: Node, wanted: Mapping[str, Filter]) -> frozenset[Entry]:
    return frozenset(Entry(owner(client, each), text) for each, text in wanted.items())


def _strangers(broker: Broker, tree: Node) -> list[str]:
    known = {*broker.router.wiring.branches[tree].neighbours, *broker.sessions.clients}
    tables = [broker.router.tables[tree, parity] for parity in Parity]
    sources = {source for table in tables for source, _ in table._subscriptions.entries()}
    return [f"{broker.name} has entries of {source}" for source in sorted(sources - known)]


def _flaws_of_link(broker: Broker, to: Node, table: Router, there: Router) -> list[str]:
    flaws = []
    for layer in Layer:
        expected = _expected(broker, to, layer, table)
        received = frozenset(there.received_from(layer, broker.name))
        if table.told(layer, to) != expected:
            flaws.append(f"{broker.name} told {to} other {layer.name.lower()} than follow from what it knows")
        if received != expected:
            missing, superfluous = len(expected - received), len(received - expected)
            flaws.append(
                f"{to} has of {broker.name}: missing {missing}, superfluous {superfluous} {layer.name.lower()}"
            )
    return flaws


def _expected(broker: Broker, to: Node, layer: Layer, table: Router) -> frozenset[Entry]:
    if table.config.policy == "flooding":
        return frozenset()
    return expected_export(SimpleNamespace(router=table, sessions=broker.sessions), to, layer)


def _follows(received: Iterable[Entry], expected: frozenset[Entry]) -> bool:
    """Whether entries let nothing through that the expected ones do not; less, while their table is being built."""
    strange = [e for e in received if not any(covers(other.filter, e.filter) for other in expected)]
    return not any(lets_through(strange, event) and not lets_through(expected, event) for event in SAMPLES)


def lets_through(entries: Iterable[Entry], event: Mapping[str, Any]) -> bool:
    return any(entry.filter.matches(event) for entry in entries)
