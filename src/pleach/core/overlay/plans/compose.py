"""Plans for single changes: a link exchanged, a broker removed, added, or put into a link (S0 §IV, S1 §4.2.3).

All plans have as few steps as possible. A swap changes no distance by more than one, so a path of n brokers needs n−2
swaps to become a link. A swap takes at most one neighbour from a broker, so one with k neighbours needs k−1 swaps to
become a leaf. A protocol for whole cycles exchanges a link in one step.
"""

from __future__ import annotations

from pleach.core.messages import Node
from pleach.core.overlay.plans.cycle import cut_at, cycle_of, links_of
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, SwapStep
from pleach.core.overlay.plans.topology import Topology
from pleach.core.overlay.registry import CYCLES
from pleach.errors import PlanError


def exchange(topology: Topology, *, remove: tuple[Node, Node], add: tuple[Node, Node], protocol: str = "") -> Plan:
    """Replace link `remove` by link `add`: one step, or n−2 swaps, where n brokers lie on the cycle of both links.

    `protocol`: one of `registry.EXCHANGES`; empty for swaps by that of the network.
    """
    way = cycle_of(topology, remove=remove, add=add)
    if protocol in CYCLES:
        return Plan.of(topology, [ExchangeStep(remove, add, protocol)])
    return Plan.of(topology, slides(way, remove, protocol))


def slides(way: tuple[Node, ...], removed: tuple[Node, Node], protocol: str = "") -> list[SwapStep]:
    """Swaps that move link `removed` of the path until it joins both ends: first one end, then the other.

    u–…–w–x–y–…–v    the end at x moves to w, …, to u; then the end at y moves towards v
    """
    at = cut_at(way, removed)
    first, y = way[0], way[at + 1]
    back = [SwapStep(y, way[i], way[i - 1], protocol) for i in range(at, 0, -1)]
    forth = [SwapStep(first, way[i], way[i + 1], protocol) for i in range(at + 1, len(way) - 1)]
    return back + forth


def remove_broker(topology: Topology, broker: Node, *, to: Node | None = None) -> Plan:
    """Move all neighbours but one to that one, `to`, which gets the clients as well; then remove the remaining leaf.

    By default `to` is the neighbour with the fewest links, of several the first by name.
    """
    neighbours = topology.neighbours(broker)
    if not neighbours:
        raise PlanError(f"{broker} is the last broker; its clients have nowhere to go, so stop it instead")
    if to is None:
        to = min(neighbours, key=lambda name: (len(topology.around[name]), name))
    if to not in neighbours:
        raise PlanError(f"{to} is not a neighbour of {broker}; choose one of {', '.join(neighbours)}")
    moves = [SwapStep(other, broker, to) for other in neighbours if other != to]
    return Plan.of(topology, [*moves, RemoveStep(broker)])


def add_broker(topology: Topology, broker: Node, *, to: Node) -> Plan:
    """Add a leaf."""
    return Plan.of(topology, [AddStep(broker, to)])


def insert_broker(topology: Topology, broker: Node, *, into: tuple[Node, Node]) -> Plan:
    """Insert a broker into a link: x–y becomes x–broker–y."""
    x, y = into
    if not topology.has_link(x, y):
        raise PlanError(f"there is no link {x}–{y} to put {broker} into{links_of(topology, x)}")
    return Plan.of(topology, [AddStep(broker, x), SwapStep(y, x, broker)])
