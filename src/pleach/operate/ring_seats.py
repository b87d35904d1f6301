"""The ring as its members report it, and the tree that follows from their reports.

Two members may disagree for a moment while the ring stabilises. The tree is known only where all of them agree. Where
some do not, a link that both of its ends want can be made all the same (`RingWish`): in a large network somebody is
always coming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans import Link, Topology
from pleach.core.overlay.plans.topology import link
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.host import RingHost
from pleach.core.ring.reference_tree import reference_tree, topmost
from pleach.errors import TopologyError


class RingSeat(msgspec.Struct, frozen=True):
    """A member owns the keys after `low`, up to `key`; its place in the tree is the topmost of these keys."""

    phase: RingPhase
    bits: int
    key: int
    low: int
    topmost: int
    predecessor: Node
    successors: list[Node]
    parent: Node
    children: list[Node]
    is_leaving: bool = False
    weaves: bool = True  # whether the tree is to be that of the ring


def seat_of(host: RingHost, *, is_leaving: bool, weaves: bool = True) -> RingSeat:
    view, around, config = host.view, host.neighbourhood, host.config
    return RingSeat(
        host.phase,
        config.bits,
        view.me.key,
        view.predecessor.key,
        topmost(reference_tree(config.circle, config.degree), view.arc).key,
        view.predecessor.name,
        [peer.name for peer in view.successors],
        around.parent.name if around.parent else "",
        [peer.name for peer in around.children],
        is_leaving,
        weaves,
    )


class WantedTree(msgspec.Struct, frozen=True):
    """The tree of the ring and its root; or why it is not known now."""

    tree: Topology | None
    root: Node = ""
    doubts: tuple[str, ...] = ()


def wanted_tree(seats: Mapping[Node, RingSeat]) -> WantedTree:
    """`seats`: of the brokers that answer and are in the ring."""
    members = {name: seat for name, seat in sorted(seats.items()) if seat.phase is RingPhase.MEMBER}
    roots = [name for name, seat in members.items() if not seat.parent]
    doubts = [*_disagreements(members)]
    if len(roots) != 1:
        doubts.append(f"{', '.join(roots) or 'no member'} would be the root")
    if doubts or not members:
        return WantedTree(None, doubts=tuple(doubts))
    try:
        links = [(seat.parent, name) for name, seat in members.items() if seat.parent]
        return WantedTree(Topology.of(links, members), roots[0])
    except TopologyError as error:
        return WantedTree(None, doubts=(str(error),))


class RingWish(NamedTuple):
    """What members want now, of the links between them.

    `links`: those that both ends want; `kept`: those that one end wants. `root`: empty where there is not one root.
    """

    links: frozenset[Link]
    kept: frozenset[Link]
    root: Node = ""


def ring_wish(seats: Mapping[Node, RingSeat]) -> RingWish:
    """`seats`: of the brokers that are in the tree."""
    members = {name: seat for name, seat in seats.items() if seat.phase is RingPhase.MEMBER}
    upwards = {(seat.parent, name) for name, seat in members.items() if seat.parent in members}
    downwards = {(name, child) for name, seat in members.items() for child in seat.children if child in members}
    roots = [name for name, seat in members.items() if seat.children and not seat.parent]
    return RingWish(
        frozenset(link(*ends) for ends in upwards & downwards),
        frozenset(link(*ends) for ends in upwards | downwards),
        roots[0] if len(roots) == 1 else "",
    )


def _disagreements(members: Mapping[Node, RingSeat]) -> Iterator[str]:
    for name, seat in members.items():
        for other in filter(None, (seat.parent, *seat.children)):
            if other not in members:
                yield f"{name} has {other} for a neighbour, which is not in the tree"
            elif other == seat.parent and name not in members[other].children:
                yield f"{name} has {other} for its parent, and {other} does not know"
            elif other != seat.parent and members[other].parent != name:
                yield f"{name} has {other} for a child, and {other} does not know"
