"""Reductions kept up incrementally: each stage turns a change of its input into the change of its output.

A policy is a row of stages (see `policies.py`, where the same reductions stand as pure functions of whole sets, which
the tests hold these against). After any sequence of changes a stage's output equals the pure function of its input.
"""

from __future__ import annotations

from typing import Protocol

from pleach.core.events.algebra import conjunction_covers
from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter
from pleach.core.routing.entries import Change, Difference, Entry


class Stage(Protocol):
    def apply(self, change: Change) -> Change: ...


class Counted:
    """Equal entries once, from however many sources they come.

    On a tree an entry has one source; while a link is exchanged for another it may have two.
    """

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
    """Equal filters once, whoever owns them: identity-based routing (S1 §2.2.3)."""

    def _key(self, entry: Entry) -> Entry:
        return Entry("", entry.filter)


def hides(wide: Filter, narrow: Filter) -> bool:
    """Whether `wide` makes `narrow` superfluous. Of two equivalent filters the first by spelling stays."""
    return _holds_each_part(wide, narrow) and (wide < narrow or not _holds_each_part(narrow, wide))


def _holds_each_part(wide: Filter, narrow: Filter) -> bool:
    """`covers`, conjunction by conjunction.

    `covers` finds more where several conjunctions cover one together, but not all there is, and so is not transitive.
    Here it must be: filters that hide each other in a circle would all be gone.
    """
    return all(any(conjunction_covers(x, y) for x in wide.conjunctions) for y in narrow.conjunctions)


class MinimalCover:
    """Filters that no other filter covers: covering-based routing (S1 §2.2.3). The input holds no filter twice.

    A forest: the roots are the output; every other filter hangs below a filter that hides it. Withdrawing a root
    offers its children anew, so that what a wide filter hid comes back. Only roots are indexed: what is covered at all
    is covered by a root.
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
        """Make a filter that nothing hides a root, above the roots that it hides."""
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
