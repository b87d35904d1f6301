"""Who a host's neighbours in the tree are (S3 §3.4), as far as can be said from what is known of the ring.

`survey` is a function of the host's own keys and the keys of hosts that it has heard of: either it names the
neighbours, or the keys whose owners it must know first. A look-up tells the owner's whole arc, and with it of every
other key there whether it is a topmost one: few look-ups are needed, however many keys there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pleach.core.messages import Peer
from pleach.core.ring.keys import Arc
from pleach.core.ring.reference_tree import ReferenceTree, TreeNode
from pleach.core.ring.topmost import Position, topmost


class HostArc(NamedTuple):
    """A host, and what it owns."""

    peer: Peer
    arc: Arc


class Neighbourhood(NamedTuple):
    """A host's place in the tree. The root has no parent."""

    parent: Peer | None = None
    children: tuple[Peer, ...] = ()  # from left to right

    @property
    def all(self) -> tuple[Peer, ...]:
        return (*(() if self.parent is None else (self.parent,)), *self.children)


class Wanted(NamedTuple):
    """Keys whose owners have to be looked up."""

    keys: tuple[int, ...]


@dataclass
class _Seen:
    tree: ReferenceTree
    own: Arc
    others: dict[Peer, Arc]
    wanted: list[int] = field(default_factory=list)
    positions: dict[Peer, int] = field(default_factory=dict)

    def owner(self, key: int) -> Peer | None:
        """None where it is not known; then it is wanted."""
        owner = next((peer for peer, arc in self.others.items() if key in arc), None)
        if owner is None:
            self.wanted.append(key)
        return owner

    def is_topmost(self, peer: Peer, key: int) -> bool:
        if peer not in self.positions:
            self.positions[peer] = topmost(self.tree, self.others[peer]).key
        return self.positions[peer] == key

    def is_settled(self, branch: TreeNode) -> bool:
        """All of it belongs to one host: nobody can sit in it, but perhaps at its top."""
        return any(arc.holds(branch.first, branch.last) for arc in (self.own, *self.others.values()))


def survey(tree: ReferenceTree, own: Arc, known: Sequence[HostArc]) -> Neighbourhood | Wanted:
    seen = _Seen(tree, own, dict(known))
    position = topmost(tree, own)
    parent = _parent(seen, position)
    children = tuple(_children(seen, position.branch, position.parent_key))
    return Wanted(tuple(seen.wanted)) if seen.wanted else Neighbourhood(parent, children)


def _parent(seen: _Seen, position: Position) -> Peer | None:
    """The nearest ancestor that is somebody's topmost key (S3 Definition 3); None for the root, or if unknown."""
    for key in position.ancestors:
        owner = seen.owner(key)
        if owner is None or seen.is_topmost(owner, key):
            return owner
    return None


def _children(seen: _Seen, branch: TreeNode, parent_key: int | None) -> Iterator[Peer]:
    """Depth-first: the first topmost keys on every way down."""
    for child in seen.tree.children(branch, parent_key):
        if child.key not in seen.own:
            owner = seen.owner(child.key)
            if owner is None:
                continue
            if seen.is_topmost(owner, child.key):
                yield owner
                continue
        if not seen.is_settled(child):
            yield from _children(seen, child, branch.key)
