"""Machines of a scenario: its brokers, connected as a tree, and its clients. Runners add the links."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from pleach.core.broker import Broker, MachineMaker
from pleach.core.client.machine import ClientMachine
from pleach.core.client.state import RenewalClock
from pleach.core.hosting.running_sum import BUILT_IN
from pleach.core.messages import Node
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.coloured.broker import ColouredBroker
from pleach.core.overlay.coloured.holding import Order
from pleach.core.overlay.context import RouterMaker
from pleach.core.overlay.registry import machines
from pleach.core.routing.renewal_relay import Relaying
from pleach.core.routing.router import Router, RoutingConfig
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.core.stabilise.paced_twin import PacedTwin
from pleach.core.stabilise.rebuild import Rebuild
from pleach.core.stabilise.rebuild_printed import RebuildPrinted, TwinRouterPrinted
from pleach.core.stabilise.twin import ONLY_TREE, TreePosition, TwinRouter, Wiring
from pleach.core.timing import phase_of
from pleach.scenario.model import Scenario, Stabilise, Stabiliser
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.stabilise_settings import colouring_of, is_coloured

REBUILDS: Mapping[Stabiliser, type[Rebuild]] = MappingProxyType(
    {
        Stabiliser.REBUILD: Rebuild,
        Stabiliser.REBUILD_PACED: PacedRebuild,
        Stabiliser.REBUILD_PRINTED: RebuildPrinted,
    }
)


@dataclass(frozen=True)
class BrokerTree:
    """Neighbours of each broker, and its neighbour on the shortest path to the root (None for the root)."""

    neighbours: dict[Node, tuple[Node, ...]]
    parent: dict[Node, Node | None]


OUTSIDE = BrokerTree({}, {})  # the tree as a broker knows it that joins later, or again


def tree_of(scenario: Scenario, root: Node = "") -> BrokerTree:
    """With the scenario's root, or another one."""
    neighbours: dict[Node, list[Node]] = {broker: [] for broker in scenario.brokers}
    for a, b in scenario.links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    parent: dict[Node, Node | None] = {root or scenario.root: None}
    waiting = deque(parent)
    while waiting:
        broker = waiting.popleft()
        for neighbour in neighbours[broker]:
            if neighbour not in parent:
                parent[neighbour] = broker
                waiting.append(neighbour)
    return BrokerTree({broker: tuple(sorted(found)) for broker, found in neighbours.items()}, parent)


def routing_config(scenario: Scenario) -> RoutingConfig:
    return RoutingConfig(
        policy=scenario.routing.value,
        hierarchical=scenario.hierarchical,
        advertisements=scenario.advertisements,
        merge_bound=scenario.merge_bound,
        refresh=scenario.stabilise.refresh if scenario.stabilise else 0.0,
        relaying=scenario.stabilise.lease.relaying(scenario.routing.value) if scenario.stabilise else Relaying.NEVER,
    )


def broker_machines(scenario: Scenario) -> Sequence[MachineMaker]:
    reweaving = [*machines(scenario.ordering.value), Mobility]
    match scenario.stabilise:
        case None:
            return reweaving
        case Stabilise(kind=Stabiliser.LEASES) as leased:
            return [*reweaving, partial(Leases, lease=leased.lease, salt=scenario.name)]
        case Stabilise(kind=kind, period=period):  # links over which tables are rebuilt do not change
            return [partial(REBUILDS[kind], period=period, salt=scenario.name)]


def router_maker(scenario: Scenario, tree: BrokerTree, name: Node) -> RouterMaker:
    """Makes the routing layer of this broker."""
    if scenario.stabilise is None or not scenario.stabilise.kind.rebuilds:
        return Router
    if scenario.stabilise.kind is Stabiliser.REBUILD_PACED:
        return partial(PacedTwin, tree.neighbours[name])
    twin = TwinRouter if scenario.stabilise.kind is Stabiliser.REBUILD else TwinRouterPrinted
    if not scenario.stabilise.cyclic:
        return partial(twin, Wiring(ONLY_TREE, {ONLY_TREE: TreePosition(tree.parent[name], tree.neighbours[name])}))
    branches = {root: _branch(tree_of(scenario, root), name) for root in scenario.brokers}
    return partial(twin, Wiring(name, branches))


def _branch(tree: BrokerTree, name: Node) -> TreePosition:
    """The neighbours of a broker in the tree of shortest paths to a root, in a network that may have cycles."""
    parent = tree.parent[name]
    linked = [n for n in tree.neighbours[name] if n == parent or tree.parent[n] == name]
    return TreePosition(parent, tuple(linked))


def make_broker(scenario: Scenario, tree: BrokerTree, name: Node) -> Broker:
    """A broker without any state, as it is started for the first time (or before its state is restored).

    A broker that is not in the tree has no neighbours yet: it will join.
    """
    config = routing_config(scenario)
    return Broker(
        name,
        config,
        neighbours=tree.neighbours.get(name, ()),
        parent=tree.parent.get(name),
        machines=broker_machines(scenario),
        make_router=router_maker(scenario, tree, name),
        components=BUILT_IN,
    )


def make_machine(scenario: Scenario, tree: BrokerTree, name: Node) -> BrokerMachine:
    """As `make_broker`, whatever kind of broker the network has."""
    if not is_coloured(scenario):
        return make_broker(scenario, tree, name)
    parent = tree.parent.get(name)
    return ColouredBroker(
        name,
        routing_config(scenario),
        colouring_of(scenario),
        order=Order(scenario.ordering.value),
        parent=parent,
        children=[neighbour for neighbour in tree.neighbours.get(name, ()) if neighbour != parent],
    )


def make_machines(scenario: Scenario) -> dict[Node, BrokerMachine]:
    tree = tree_of(scenario)
    return {name: make_machine(scenario, tree, name) for name in scenario.brokers}


def make_clients(scenario: Scenario) -> dict[Node, ClientMachine]:
    return {
        c.id: ClientMachine(c.id, c.broker, own_events=c.own_events, lease=renewal_clock(scenario, c.id))
        for c in scenario.clients
    }


def renewal_clock(scenario: Scenario, client: Node) -> RenewalClock | None:
    if scenario.stabilise is None:
        return None
    every = scenario.stabilise.refresh
    return RenewalClock(every, phase_of(f"{scenario.name}/{client}", every))
