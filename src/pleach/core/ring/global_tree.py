"""The tree of all hosts at once, by who sees everything: what the hosts must come to by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from pleach.core.ring.keys import Arc, Circle
from pleach.core.ring.reference_tree import ReferenceTree
from pleach.core.ring.topmost import Position, topmost


def arcs_of(circle: Circle, hosts: Iterable[int]) -> dict[int, Arc]:
    """What each host owns: from the host before it, excluded, to itself (Chord)."""
    ordered = sorted(hosts)
    return {high: Arc(circle, low, high) for low, high in pairwise((ordered[-1], *ordered))} if ordered else {}


def positions_of(tree: ReferenceTree, hosts: Iterable[int]) -> dict[int, Position]:
    return {host: topmost(tree, arc) for host, arc in arcs_of(tree.circle, hosts).items()}


def parents_of(tree: ReferenceTree, hosts: Iterable[int]) -> dict[int, int]:
    """The parent of every host but the root."""
    return parents_at(positions_of(tree, hosts))


def parents_at(positions: Mapping[int, Position]) -> dict[int, int]:
    host_at = {position.key: host for host, position in positions.items()}
    parents: dict[int, int] = {}
    for host, position in positions.items():
        nearest = next((key for key in position.ancestors if key in host_at), None)
        if nearest is not None:
            parents[host] = host_at[nearest]
    return parents
