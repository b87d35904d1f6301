"""A cluster: the conjunctions that share their rarest equalities. Few are scanned, many become a field of grids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import TypeAlias

from pleach.core.events.index.grid import Field, Grid, GridEntry
from pleach.core.events.index.predicates import Getter, holds

SCAN_MAX = 12  # on W1 anything from 6 to 16 did equally well, within the noise
FIELD_MIN = 6  # below half of it, so that a cluster at the limit does not flip with each change

Cluster: TypeAlias = list[GridEntry] | Field[GridEntry]


def added(cluster: Cluster | None, entry: GridEntry) -> Cluster:
    """The cluster that holds `entry` too; the same object where its form does not change."""
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
    """The cluster without `entry`; None where nothing is left."""
    if isinstance(cluster, list):
        cluster.remove(entry)
        return cluster or None
    cluster.remove(entry)
    return cluster if len(cluster) >= FIELD_MIN else list(cluster)


def collect(cluster: Cluster, get: Getter, found: set[Hashable]) -> None:
    """Add to `found` the owners that want the event; owners found already cost nothing more."""
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
