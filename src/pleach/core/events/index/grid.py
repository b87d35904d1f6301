"""Grids: many conjunctions as bits of integers, so that a few integer operations rule most of them out.

Each conjunction has a slot, i.e. a bit. `columns` give per attribute the bits that a value rules out (`column.py`); the
rest are candidates, verified one by one. Slots are not reused: a removed conjunction leaves a dead bit. A grid that is
full of slots is rebuilt.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from pleach.core.events.index.column import Column
from pleach.core.events.index.predicates import Predicate

GRID_ENTRIES_MAX = 4096  # wider rows: fewer per event, more to copy per change
GRID_SLOTS_MIN = 64
SLOTS_PER_ENTRY = 2  # slots per entry before a grid is rebuilt


class GridEntry:
    """A conjunction in an index: its owner, the predicates to verify, and its slot."""

    __slots__ = ("grid", "owner", "predicates", "slot")

    def __init__(self, owner: Hashable, predicates: tuple[Predicate, ...]) -> None:
        self.owner = owner
        self.predicates = predicates
        self.grid: Grid[GridEntry] | None = None
        self.slot = -1


E = TypeVar("E", bound=GridEntry)


class Grid(Generic[E]):
    """Loops outside read its attributes; `masks`: the bits of each owner."""

    __slots__ = ("_slots_max", "alive", "axes", "columns", "entries", "masks", "patterned")

    def __init__(self, entries: list[E]) -> None:
        self._build(entries)

    def __len__(self) -> int:
        return self.alive.bit_count()

    def __iter__(self) -> Iterator[E]:
        return (entry for entry in self.entries if entry is not None)

    def add(self, entry: E) -> None:
        if len(self.entries) == self._slots_max:
            self._build([*self, entry])
        else:
            self._place(entry)

    def remove(self, entry: E) -> None:
        bit = 1 << entry.slot
        self.entries[entry.slot] = None
        self.alive ^= bit
        entry.grid, entry.slot = None, -1
        mask = self.masks[entry.owner] ^ bit
        if mask:
            self.masks[entry.owner] = mask
        else:
            del self.masks[entry.owner]

    def _build(self, entries: list[E]) -> None:
        self._slots_max = max(GRID_SLOTS_MIN, SLOTS_PER_ENTRY * len(entries))
        self.alive = 0
        self.entries: list[E | None] = []
        self.masks: dict[Hashable, int] = {}
        by_name: dict[str, list[tuple[int, Predicate]]] = {}
        for entry in entries:
            bit = self._take_slot(entry)
            for predicate in entry.predicates:
                by_name.setdefault(predicate[0], []).append((bit, predicate))
        self.columns = {name: Column(items) for name, items in by_name.items()}
        self.axes = {name: column.axes for name, column in self.columns.items()}
        self.patterned = {name: column for name, column in self.columns.items() if column.patterned}

    def _place(self, entry: E) -> None:
        bit = self._take_slot(entry)
        for predicate in entry.predicates:
            name = predicate[0]
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = Column([(bit, predicate)])
                self.axes[name] = column.axes
            else:
                column.add(bit, predicate)
            if column.patterned:
                self.patterned[name] = column

    def _take_slot(self, entry: E) -> int:
        slot = len(self.entries)
        bit = 1 << slot
        self.entries.append(entry)
        self.alive |= bit
        self.masks[entry.owner] = self.masks.get(entry.owner, 0) | bit
        entry.grid, entry.slot = self, slot  # type: ignore[assignment]
        return bit


class Field(Generic[E]):
    """Any number of conjunctions, in as many grids as they need."""

    __slots__ = ("grids",)

    def __init__(self, entries: list[E]) -> None:
        self.grids = [Grid(entries[i : i + GRID_ENTRIES_MAX]) for i in range(0, len(entries), GRID_ENTRIES_MAX)]

    def __len__(self) -> int:
        return sum(map(len, self.grids))

    def __iter__(self) -> Iterator[E]:
        return (entry for grid in self.grids for entry in grid)

    def add(self, entry: E) -> None:
        for grid in reversed(self.grids):  # the last one nearly always has room
            if len(grid) < GRID_ENTRIES_MAX:
                grid.add(entry)
                return
        self.grids.append(Grid([entry]))

    def remove(self, entry: E) -> None:
        grid = entry.grid
        assert grid is not None, "the entry is in no grid"
        grid.remove(entry)
        if not grid.alive:
            self.grids = [other for other in self.grids if other is not grid]
