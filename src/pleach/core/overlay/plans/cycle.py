"""The cycle that a new link closes in a tree; removing one of its links leaves a tree (S1 §4.2.1)."""

from __future__ import annotations

from itertools import pairwise

from pleach.core.messages import Node
from pleach.core.overlay.plans.topology import Topology, link
from pleach.errors import PlanError


def cycle_of(topology: Topology, *, remove: tuple[Node, Node], add: tuple[Node, Node]) -> tuple[Node, ...]:
    """The brokers from one end of `add` to the other. Raises PlanError where the exchange would leave no tree."""
    (x, y), (u, v) = remove, add
    if not topology.has_link(x, y):
        raise PlanError(f"there is no link {x}–{y} to remove{links_of(topology, x)}")
    if u == v:
        raise PlanError(f"link {u}–{v} would join a broker to itself; name two brokers")
    if topology.has_link(u, v):
        raise PlanError(f"link {u}–{v} is there already; there is nothing to add")
    way = topology.path(u, v)
    if link(x, y) not in links_on(way):
        shown = "–".join(way)
        raise PlanError(f"{u} and {v} are joined without {x}–{y}, by {shown}; remove a link of these instead")
    return way


def cut_at(way: tuple[Node, ...], removed: tuple[Node, Node]) -> int:
    """The index of the broker before the removed link."""
    return links_on(way).index(link(*removed))


def links_on(way: tuple[Node, ...]) -> list[tuple[Node, Node]]:
    return [link(a, b) for a, b in pairwise(way)]


def links_of(topology: Topology, broker: Node) -> str:
    """The end of an error message about a missing link."""
    links = ", ".join(f"{broker}–{other}" for other in topology.neighbours(broker))
    return f"; links of {broker}: {links or 'none'}"
