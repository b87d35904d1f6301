"""What each member says of its place in the ring and in the tree, and the tree that all of them together want.

Two members may differ for a moment while the ring mends. The tree counts only where all of them are of one mind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from pleach.errors import TopologyError
from pleach.messages import Node
from pleach.overlay.plans import Topology
from pleach.ring.chord import Phase
from pleach.ring.host import RingHost
from pleach.ring.reference_tree import reference_tree
from pleach.ring.topmost import topmost


class Place(msgspec.Struct, frozen=True):
    """A member has the keys behind `low`, up to `key`; it sits at `topmost`, the first of them in the common tree."""

    phase: Phase
    bits: int
    key: int
    low: int
    topmost: int
    predecessor: Node
    successors: list[Node]
    parent: Node
    children: list[Node]
    is_leaving: bool = False


def place_of(host: RingHost, *, is_leaving: bool) -> Place:
    view, around, config = host.view, host.neighbourhood, host.config
    return Place(
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
    )


class Wish(msgspec.Struct, frozen=True):
    """The tree of the ring, and who is at its root; or why it is not known just now."""

    tree: Topology | None
    root: Node = ""
    doubts: tuple[str, ...] = ()


def wish_of(places: Mapping[Node, Place]) -> Wish:
    """`places`: of the brokers that answer and are in the ring."""
    members = {name: place for name, place in sorted(places.items()) if place.phase is Phase.MEMBER}
    roots = [name for name, place in members.items() if not place.parent]
    doubts = [*_disagreements(members)]
    if len(roots) != 1:
        doubts.append(f"{', '.join(roots) or 'nobody'} would be the root")
    if doubts or not members:
        return Wish(None, doubts=tuple(doubts))
    try:
        links = [(place.parent, name) for name, place in members.items() if place.parent]
        return Wish(Topology.of(links, members), roots[0])
    except TopologyError as error:
        return Wish(None, doubts=(str(error),))


def _disagreements(members: Mapping[Node, Place]) -> Iterator[str]:
    for name, place in members.items():
        for other in filter(None, (place.parent, *place.children)):
            if other not in members:
                yield f"{name} has {other} for a neighbour, which is not in the tree"
            elif other == place.parent and name not in members[other].children:
                yield f"{name} has {other} for its parent, and {other} does not know"
            elif other != place.parent and members[other].parent != name:
                yield f"{name} has {other} for a child, and {other} does not know"
