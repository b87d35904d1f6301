"""A cluster: the conjunctions that share their rarest equalities; a list, or a field of grids where it is large."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import TypeAlias

from pleach.core.events.index.grid import Field, Grid, GridEntry
from pleach.core.events.index.predicates import Getter, holds

SCAN_MAX = 12  # on workload W1 any value from 6 to 16 is equally fast
FIELD_MIN = 6  # half of it, so that a cluster at the limit does not change its form repeatedly

Cluster: TypeAlias = list[GridEntry] | Field[GridEntry]


def added(cluster: Cluster | None, entry: GridEntry) -> Cluster:
    """The cluster with `entry`; the same object unless its form changes."""
    match cluster:
        case None:
            return [entry]
        case list() if len(cluster) >= SCAN_MAX:
            return Field([*cluster, entry])
        case list():
            cluster.append(entry)
        case Field():
            cluster.add(entry)
    return cluster


def removed(cluster: Cluster, entry: GridEntry) -> Cluster | None:
    """The cluster without `entry`; None if it is empty."""
    if isinstance(cluster, list):
        cluster.remove(entry)
        return cluster or None
    cluster.remove(entry)
    return cluster if len(cluster) >= FIELD_MIN else list(cluster)


def collect(cluster: Cluster, get: Getter, found: set[Hashable]) -> None:
    """Add the owners whose entries match the event to `found`; owners found already are skipped."""
    if isinstance(cluster, list):
        for entry in cluster:
            if entry.owner not in found and holds(entry.predicates, get):
                found.add(entry.owner)
        return
    for grid in cluster.grids:
        if not grid.masks.keys() <= found:
            _verify(grid, _candidates(grid, get), get, found)


def _candidates(grid: Grid[GridEntry], get: Getter) -> int:
    failed = 0
    for name, axes in grid.axes.items():
        value = get(name)
        boundaries, rows = axes[value.__class__]
        failed |= rows[bisect_right(boundaries, value)]
    for name, column in grid.patterned.items():
        failed |= column.failing_patterns(get(name))
    return grid.alive & ~failed


def _verify(grid: Grid[GridEntry], candidates: int, get: Getter, found: set[Hashable]) -> None:
    entries, masks = grid.entries, grid.masks
    while candidates:
        entry = entries[candidates.bit_length() - 1]
        assert entry is not None, "only living entries are candidates"
        owner = entry.owner
        if owner in found:
            candidates &= ~masks[owner]
        elif holds(entry.predicates, get):
            found.add(owner)
            candidates &= ~masks[owner]
        else:
            candidates ^= 1 << entry.slot
