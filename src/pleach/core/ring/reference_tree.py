"""The reference tree (S3 §3.2): a tree of all keys, which follows from their number alone.

A node has an interval of keys. It takes one key and divides the others evenly among its children:

    binary (degree 3), 15 keys            degree 4: one child away from the parent, two towards it
              8
         4         12                          root ──────────────────────────────▶ parent's side
       2   6    10    14                  [outer] key [inner][inner] … parent
      1 3 5 7  9 11 13 15

Rule (S3 §3.2): at most one child lies away from the parent, and no child lies beyond the parent. So a host has at most
`degree` neighbours: always in the binary tree, mostly in others.

The paper counts keys from 1 to 2^n - 1. A circle also has key 0: the leftmost, below key 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from pleach.core.ring.keys import Arc, Circle
from pleach.errors import RingError

BINARY: Final = 3
DEGREE_MAX: Final = 64
TREES_KEPT: Final = 16


class TreeNode(NamedTuple):
    """A node of the tree; the keys from `first` to `last` are its own and those below it."""

    key: int
    first: int
    last: int

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.first <= key <= self.last


class ReferenceTree:
    """`degree`: neighbours of a node, including its parent."""

    def __init__(self, circle: Circle, degree: int = BINARY) -> None:
        if not BINARY <= degree <= DEGREE_MAX:
            raise RingError(f"a reference tree of degree {degree}; it has {BINARY} to {DEGREE_MAX}")
        self.circle = circle
        self.degree = degree
        self._before_root = (degree - 1) // 2  # children to the left of the root
        self.root = self._branch(0, circle.size - 1, self._before_root)

    def children(self, branch: TreeNode, parent_key: int | None) -> list[TreeNode]:
        """From left to right; `parent_key`: tells the side of the parent, None for the root."""
        before = self._before(branch, parent_key)
        share, left_over = divmod(branch.last - branch.first, self.degree - 1)
        below: list[TreeNode] = []
        first = branch.first
        for number in range(self.degree - 1):
            first += number == before  # behind the node's own key
            following = first + share + (number < left_over)
            if first < following:
                # Left of its parent it has one child to its left, away from the parent; else all but one.
                below.append(self._branch(first, following - 1, 1 if number < before else self.degree - 2))
            first = following
        return below

    def path(self, key: int) -> list[TreeNode]:
        """From the root to the node of a key."""
        path, parent_key = [self.root], None
        while path[-1].key != key:
            branch = path[-1]
            path.append(next(child for child in self.children(branch, parent_key) if key in child))
            parent_key = branch.key
        return path

    def __reduce__(self) -> tuple[Callable[..., ReferenceTree], tuple[Circle, int]]:
        """A copy is the same tree."""
        return reference_tree, (self.circle, self.degree)

    def _before(self, branch: TreeNode, parent_key: int | None) -> int:
        """The number of children left of a node: one where that is away from the parent, else all but one."""
        if parent_key is None:
            return self._before_root
        return 1 if branch.key < parent_key else self.degree - 2

    def _branch(self, first: int, last: int, before: int) -> TreeNode:
        """The node's own key follows the keys of `before` children."""
        share, left_over = divmod(last - first, self.degree - 1)
        return TreeNode(first + before * share + min(before, left_over), first, last)


@lru_cache(maxsize=TREES_KEPT)
def reference_tree(circle: Circle, degree: int = BINARY) -> ReferenceTree:
    """Shared by all hosts of a process."""
    return ReferenceTree(circle, degree)


POSITIONS_KEPT: Final = 1 << 16  # cached


class HostPosition(NamedTuple):
    """The position of a host (S3 §3.3): a node of the tree, and the keys of its ancestors, nearest first."""

    branch: TreeNode
    ancestors: tuple[int, ...]

    @property
    def key(self) -> int:
        return self.branch.key

    @property
    def parent_key(self) -> int | None:
        return self.ancestors[0] if self.ancestors else None


@lru_cache(maxsize=POSITIONS_KEPT)
def topmost(tree: ReferenceTree, arc: Arc) -> HostPosition:
    """The first key of an arc in breadth-first order. Visits few nodes per level: those that meet the arc."""
    level = [HostPosition(tree.root, ())]
    while True:
        for position in level:
            if position.key in arc:
                return position
        level = [
            HostPosition(child, (position.key, *position.ancestors))
            for position in level
            for child in tree.children(position.branch, position.parent_key)
            if arc.meets(child.first, child.last)
        ]


# The tree of all hosts from global knowledge, which the hosts must reach by themselves --------------------------------


def arcs_of(circle: Circle, hosts: Iterable[int]) -> dict[int, Arc]:
    """The keys of each host: from its predecessor, excluded, to itself (Chord)."""
    ordered = sorted(hosts)
    return {high: Arc(circle, low, high) for low, high in pairwise((ordered[-1], *ordered))} if ordered else {}


def positions_of(tree: ReferenceTree, hosts: Iterable[int]) -> dict[int, HostPosition]:
    return {host: topmost(tree, arc) for host, arc in arcs_of(tree.circle, hosts).items()}


def parents_of(tree: ReferenceTree, hosts: Iterable[int]) -> dict[int, int]:
    """The parent of every host except the root."""
    return parents_at(positions_of(tree, hosts))


def parents_at(positions: Mapping[int, HostPosition]) -> dict[int, int]:
    host_at = {position.key: host for host, position in positions.items()}
    parents: dict[int, int] = {}
    for host, position in positions.items():
        nearest = next((key for key in position.ancestors if key in host_at), None)
        if nearest is not None:
            parents[host] = host_at[nearest]
    return parents
