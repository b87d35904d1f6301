"""Routing entries, and changes to sets of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pleach.core.events.filter import Filter
from pleach.core.messages import Node

Gate: TypeAlias = Callable[[Node, Filter], bool]  # whether entries with this filter concern a neighbour


class Entry(NamedTuple):
    """A filter that a destination subscribes to (or advertises).

    `owner`: names the subscription where a policy distinguishes equal filters (simple routing), else empty.
    """

    owner: str
    filter: Filter


class Change(NamedTuple):
    """The difference between two sets of entries; `added` and `removed` are disjoint."""

    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()


NO_CHANGE = Change()


class Difference:
    """Collects additions and removals; opposite pairs cancel out."""

    __slots__ = ("_added", "_removed")

    def __init__(self) -> None:
        self._added: dict[Entry, None] = {}
        self._removed: dict[Entry, None] = {}

    def add(self, entry: Entry) -> None:
        if entry in self._removed:
            del self._removed[entry]
        else:
            self._added[entry] = None

    def remove(self, entry: Entry) -> None:
        if entry in self._added:
            del self._added[entry]
        else:
            self._removed[entry] = None

    def change(self) -> Change:
        return Change(tuple(self._added), tuple(self._removed))


def gated(change: Change, gate: Gate, neighbour: Node) -> Change:
    added = tuple(entry for entry in change.added if gate(neighbour, entry.filter))
    return Change(added, tuple(entry for entry in change.removed if gate(neighbour, entry.filter)))
