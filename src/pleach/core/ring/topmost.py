"""The position of a host in the reference tree (S3 §3.3): the first of its keys in breadth-first order."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from pleach.core.ring.keys import Arc
from pleach.core.ring.reference_tree import ReferenceTree, TreeNode

POSITIONS_KEPT: Final = 1 << 16  # cached


class Position(NamedTuple):
    """A node of the tree, and the keys of its ancestors, nearest first."""

    branch: TreeNode
    ancestors: tuple[int, ...]

    @property
    def key(self) -> int:
        return self.branch.key

    @property
    def parent_key(self) -> int | None:
        return self.ancestors[0] if self.ancestors else None


@lru_cache(maxsize=POSITIONS_KEPT)
def topmost(tree: ReferenceTree, arc: Arc) -> Position:
    """Level by level. A branch within the arc ends the search, so few nodes per level are visited."""
    level = [Position(tree.root, ())]
    while True:
        for position in level:
            if position.key in arc:
                return position
        level = [
            Position(child, (position.key, *position.ancestors))
            for position in level
            for child in tree.children(position.branch, position.parent_key)
            if arc.meets(child.first, child.last)
        ]
