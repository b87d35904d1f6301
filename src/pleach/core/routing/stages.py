"""Incremental reductions: each stage turns a change of its input into the change of its output.

A policy is a sequence of stages. After any changes a stage's output equals the pure function of its input in
`policies.py`; tests compare the two.
"""

from __future__ import annotations

from typing import Protocol

from pleach.core.events.algebra import conjunction_covers
from pleach.core.events.budget import Steps
from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter
from pleach.core.routing.entries import Change, Difference, Entry


class Stage(Protocol):
    def apply(self, change: Change) -> Change: ...


class Counted:
    """Equal entries once. On a tree an entry has one source; while a link is being exchanged it may have two."""

    def __init__(self) -> None:
        self._count: dict[Entry, int] = {}

    def apply(self, change: Change) -> Change:
        difference = Difference()
        for entry in map(self._key, change.added):
            count = self._count[entry] = self._count.get(entry, 0) + 1
            if count == 1:
                difference.add(entry)
        for entry in map(self._key, change.removed):
            count = self._count[entry] - 1
            if count:
                self._count[entry] = count
            else:
                del self._count[entry]
                difference.remove(entry)
        return difference.change()

    def _key(self, entry: Entry) -> Entry:
        return entry


class Distinct(Counted):
    """Equal filters once, regardless of owners: identity-based routing (S1 §2.2.3)."""

    def _key(self, entry: Entry) -> Entry:
        return Entry("", entry.filter)


def hides(wide: Filter, narrow: Filter) -> bool:
    """Whether `wide` makes `narrow` redundant. Of two equivalent filters the first by text stays."""
    return _holds_each_part(wide, narrow) and (wide < narrow or not _holds_each_part(narrow, wide))


def _holds_each_part(wide: Filter, narrow: Filter) -> bool:
    """`covers`, conjunction by conjunction.

    `covers` also finds some cases where several conjunctions cover one together, and so is not transitive. This
    relation must be: filters that hide each other in a cycle would all be dropped.
    """
    steps = Steps()
    return all(any(conjunction_covers(x, y, steps) for x in wide.conjunctions) for y in narrow.conjunctions)


class MinimalCover:
    """Filters that no other filter covers: covering-based routing (S1 §2.2.3). The input holds no filter twice.

    A forest: the roots are the output; every other filter is a child of a filter that hides it. Removing a root adds
    its children again. Only roots are indexed: a covered filter is always covered by a root.
    """

    def __init__(self) -> None:
        self._roots = CoverIndex()
        self._parent: dict[Filter, Filter | None] = {}
        self._children: dict[Filter, dict[Filter, None]] = {}

    def apply(self, change: Change) -> Change:
        difference = Difference()
        for entry in change.added:
            self._add(entry.filter, difference)
        for entry in change.removed:
            self._remove(entry.filter, difference)
        return difference.change()

    def _add(self, added: Filter, difference: Difference) -> None:
        for root in self._roots.covering(added):
            if hides(root, added):
                self._hang(added, root)
                return
        self._grow(added, difference)

    def _grow(self, root: Filter, difference: Difference) -> None:
        """Add a root above the roots that it hides."""
        for hidden in self._roots.covered(root):
            if hides(root, hidden):
                self._roots.remove(hidden)
                self._hang(hidden, root)
                difference.remove(Entry("", hidden))
        self._roots.add(root)
        self._parent[root] = None
        difference.add(Entry("", root))

    def _hang(self, child: Filter, parent: Filter) -> None:
        self._parent[child] = parent
        self._children.setdefault(parent, {})[child] = None

    def _remove(self, removed: Filter, difference: Difference) -> None:
        parent = self._parent.pop(removed)
        children = self._children.pop(removed, {})
        if parent is None:
            self._roots.remove(removed)
            difference.remove(Entry("", removed))
            for child in children:
                self._add(child, difference)
            return
        self._children[parent].pop(removed)
        for child in children:  # hidden by `removed`, hence by its parent too
            self._hang(child, parent)
