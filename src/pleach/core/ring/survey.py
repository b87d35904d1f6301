"""The neighbours of a host in the tree (S3 §3.4), from what it knows of the ring.

`survey` is a function of the host's own arc and the arcs of known hosts. It returns either the neighbours, or the keys
whose owners must be looked up first. A look-up yields the owner's whole arc, and with it the topmost key of that host,
so few look-ups are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pleach.core.messages import Peer
from pleach.core.ring.keys import Arc
from pleach.core.ring.reference_tree import HostPosition, ReferenceTree, TreeNode, topmost


class HostArc(NamedTuple):
    """A host and its keys."""

    peer: Peer
    arc: Arc


class Neighbourhood(NamedTuple):
    """A host's neighbours in the tree. The root has no parent."""

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
        """None where it is unknown; the key is then wanted."""
        owner = next((peer for peer, arc in self.others.items() if key in arc), None)
        if owner is None:
            self.wanted.append(key)
        return owner

    def is_topmost(self, peer: Peer, key: int) -> bool:
        if peer not in self.positions:
            self.positions[peer] = topmost(self.tree, self.others[peer]).key
        return self.positions[peer] == key

    def is_settled(self, branch: TreeNode) -> bool:
        """The whole branch belongs to one host: no other host is positioned in it."""
        return any(arc.holds(branch.first, branch.last) for arc in (self.own, *self.others.values()))


def survey(tree: ReferenceTree, own: Arc, known: Sequence[HostArc]) -> Neighbourhood | Wanted:
    seen = _Seen(tree, own, dict(known))
    position = topmost(tree, own)
    parent = _parent(seen, position)
    children = tuple(_children(seen, position.branch, position.parent_key))
    return Wanted(tuple(seen.wanted)) if seen.wanted else Neighbourhood(parent, children)


def _parent(seen: _Seen, position: HostPosition) -> Peer | None:
    """The nearest ancestor that is a host's topmost key (S3 Definition 3); None for the root, or if unknown."""
    for key in position.ancestors:
        owner = seen.owner(key)
        if owner is None or seen.is_topmost(owner, key):
            return owner
    return None


def _children(seen: _Seen, branch: TreeNode, parent_key: int | None) -> Iterator[Peer]:
    """Depth-first: the first topmost keys on every path down."""
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
