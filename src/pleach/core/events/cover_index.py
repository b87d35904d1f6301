"""The cover index: the filters that cover, are covered by, or overlap a given one, without a scan of all.

Members are in grids, like those of the matching index (`index/grid.py`). A query is a few operations on rows of bits
per grid, which leave candidates; the algebra then decides. So the answers are those of a scan with `covers` and
`overlaps`; the rows may only yield too many candidates:

    g covers f      g constrains only what f constrains, and rules out no bucket in which f has values
    f covers g      g constrains all that f constrains, and rules out every bucket that f rules out
    g overlaps f    for each attribute that both constrain there is a bucket that neither rules out

Rows distinguish values by buckets, so many members with different equalities would all be candidates of each other;
such members are found by their values instead (`_pinned`).

A filter of several conjunctions is a member with each of them. Several may cover together what none covers alone, but
only if one of them overlaps it: between such filters that is the criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from pleach.core.events.algebra import covers, is_satisfiable, overlaps
from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.index.column import Column, buckets
from pleach.core.events.index.grid import Field, Grid, GridEntry
from pleach.core.events.index.predicates import predicates_of

POSTING_SCAN_MAX = 64  # above this, the rows of grids leave fewer candidates

Pin: TypeAlias = tuple[str, TypeConstraint, Any]  # an attribute, and the one value (of a kind) that is admitted
PATTERNED: Pin = ("", TypeConstraint.STRING, None)  # of members with patterns, which may leave a single value
Question: TypeAlias = Callable[[Grid[GridEntry], Conjunction], int]  # the bits of the candidates


class CoverIndex:
    """A set of filters. Answers never contain the filter asked about, and come in the order of insertion."""

    def __init__(self, members: Iterable[Filter] = ()) -> None:
        """Members given here are laid out at once, not bit by bit."""
        self._sequence: dict[Filter, int] = {}
        self._entries: dict[Filter, tuple[GridEntry, ...]] = {}
        self._next = 0
        self._empty: dict[Filter, None] = {}  # members without a satisfiable conjunction: everything covers them
        self._pinned: dict[Pin, dict[Filter, None]] = {}  # members of one conjunction, by each value they pin
        self._loose_members: dict[Filter, None] = {}  # of one conjunction, that pin nothing
        fresh = {member: self._enter(member) for member in dict.fromkeys(members)}
        loose = self._loose_members
        self._simple = Field(
            [e for member, found in fresh.items() if len(found) == 1 and member not in loose for e in found]
        )
        self._loose = Field([e for member in loose for e in fresh[member]])
        self._compound = Field([e for found in fresh.values() if len(found) > 1 for e in found])

    def __len__(self) -> int:
        return len(self._sequence)

    def __contains__(self, member: Filter) -> bool:
        return member in self._sequence

    def add(self, member: Filter) -> None:
        """Adding a member again changes nothing."""
        if member in self._sequence:
            return
        entries = self._enter(member)
        field = self._field_of(member)
        for entry in entries:
            field.add(entry)

    def _enter(self, member: Filter) -> tuple[GridEntry, ...]:
        """Note the member and make its entries, which are in no field yet."""
        self._sequence[member] = self._next
        self._next += 1
        parts = _satisfiable(member)
        if not parts:
            self._empty[member] = None
        entries = tuple(GridEntry(member, predicates_of(part.constraints.items())) for part in parts)
        self._entries[member] = entries
        if len(parts) == 1:
            self._note_pins(member, parts[0])
        return entries

    def _note_pins(self, member: Filter, part: Conjunction) -> None:
        pins = pins_of(part)
        for pin in [*pins, *[PATTERNED] * has_patterns(part)]:
            self._pinned.setdefault(pin, {})[member] = None
        if not pins:
            self._loose_members[member] = None

    def remove(self, member: Filter) -> None:
        """Removing what is no member changes nothing."""
        if self._sequence.pop(member, None) is None:
            return
        self._empty.pop(member, None)
        field = self._field_of(member)
        entries = self._entries.pop(member)
        for entry in entries:
            field.remove(entry)
        if len(entries) == 1:
            self._forget_pins(member)

    def _forget_pins(self, member: Filter) -> None:
        self._loose_members.pop(member, None)
        part = _satisfiable(member)[0]
        for pin in [*pins_of(part), *[PATTERNED] * has_patterns(part)]:
            del self._pinned[pin][member]
            if not self._pinned[pin]:
                del self._pinned[pin]

    def _field_of(self, member: Filter) -> Field[GridEntry]:
        if member in self._loose_members:
            return self._loose
        return self._simple if len(self._entries[member]) == 1 else self._compound

    def covering(self, probe: Filter) -> list[Filter]:
        """The members that cover `probe`."""
        return self._sorted(member for member in self._may_cover(probe) if covers(member, probe))

    def any_covering(self, probe: Filter) -> Filter | None:
        """Some member that covers `probe`: the same one for the same history of changes."""
        return next((member for member in self._may_cover(probe) if covers(member, probe)), None)

    def covered(self, probe: Filter) -> list[Filter]:
        """The members that `probe` covers."""
        return self._sorted(member for member in self._may_be_covered(probe) if covers(probe, member))

    def overlapping(self, probe: Filter) -> list[Filter]:
        """The members that some event matches together with `probe`."""
        return self._sorted(self._that_overlap(probe))

    def any_overlapping(self, probe: Filter) -> Filter | None:
        """Some member that overlaps `probe`: the same one for the same history of changes."""
        return next(self._that_overlap(probe), None)

    def _that_overlap(self, probe: Filter) -> Iterator[Filter]:
        candidates = self._owners(_satisfiable(probe), may_overlap, self._simple, self._loose, self._compound)
        return (member for member in candidates if member != probe and overlaps(member, probe))

    def _may_cover(self, probe: Filter) -> Iterator[Filter]:
        parts = _satisfiable(probe)
        if not parts:
            return (member for member in self._sequence if member != probe)
        first = parts[:1]  # a filter that covers the probe covers its first part
        candidates = chain(self._simple_that_may_cover(parts[0]), self._owners(first, may_overlap, self._compound))
        return (member for member in candidates if member != probe)

    def _simple_that_may_cover(self, part: Conjunction) -> Iterator[Filter]:
        """A member that pins an attribute covers only filters that pin it to the same value."""
        postings = [self._pinned.get(pin, {}) for pin in pins_of(part)]
        if has_patterns(part) or sum(map(len, postings)) > POSTING_SCAN_MAX:
            return self._owners([part], may_cover, self._simple, self._loose)
        return chain(dict.fromkeys(chain(*postings)), self._owners([part], may_cover, self._loose))

    def _may_be_covered(self, probe: Filter) -> Iterator[Filter]:
        parts = _satisfiable(probe)
        if len(parts) == 1:
            pinned = self._simple_that_may_be_covered(parts[0])
            if pinned is not None:
                candidates = chain(self._empty, pinned, self._owners(parts, may_be_covered, self._compound))
                return (member for member in candidates if member != probe)
        question = may_be_covered if len(parts) == 1 else may_overlap
        candidates = chain(self._empty, self._owners(parts, question, self._simple, self._loose, self._compound))
        return (member for member in candidates if member != probe)

    def _simple_that_may_be_covered(self, part: Conjunction) -> Iterable[Filter] | None:
        """Members that pin the same values; None where these are too many."""
        postings = [self._pinned.get(pin, {}) for pin in pins_of(part)]
        if not postings:
            return None
        fewest: dict[Filter, None] = min(postings, key=len)
        found = fewest | self._pinned.get(PATTERNED, {})
        return found if len(found) <= POSTING_SCAN_MAX else None

    def _owners(self, parts: list[Conjunction], question: Question, *fields: Field[GridEntry]) -> Iterator[Filter]:
        """The members among the candidates, each once."""
        seen: set[Filter] = set()
        for field in fields:
            for grid in field.grids:
                candidates = 0
                for part in parts:
                    candidates |= question(grid, part)
                yield from _fresh_owners(grid, candidates, seen)

    def _sorted(self, members: Iterable[Filter]) -> list[Filter]:
        return sorted(members, key=self._sequence.__getitem__)


def pins_of(part: Conjunction) -> list[Pin]:
    """The attributes of which the conjunction admits one value only, with that value."""
    pins = []
    for name, constraint in part.constraints.items():
        points = constraint.points()
        if points is not None and len(points) == 1:
            pins.append((name, constraint.kind, points[0]))
    return pins


def has_patterns(part: Conjunction) -> bool:
    return any(constraint.patterns for constraint in part.constraints.values())


def _satisfiable(probe: Filter) -> list[Conjunction]:
    return [part for part in probe.conjunctions if is_satisfiable(part)]


def _fresh_owners(grid: Grid[GridEntry], candidates: int, seen: set[Filter]) -> Iterator[Filter]:
    while candidates:
        entry = grid.entries[candidates.bit_length() - 1]
        assert entry is not None, "only living entries are candidates"
        candidates &= ~grid.masks[entry.owner]
        owner = entry.owner
        assert isinstance(owner, Filter), "the owner of a member's entry is the member"
        if owner not in seen:
            seen.add(owner)
            yield owner


def may_cover(grid: Grid[GridEntry], probe: Conjunction) -> int:
    """The entries that may cover `probe`."""
    failed = 0
    for name, column in grid.columns.items():
        constraint = probe.constraints.get(name)
        failed |= column.constraining if constraint is None else _narrower(column, constraint)
    return grid.alive & ~failed


def may_be_covered(grid: Grid[GridEntry], probe: Conjunction) -> int:
    """The entries that `probe` may cover."""
    candidates = grid.alive
    for name in probe.constraints:
        column = grid.columns.get(name)
        candidates &= 0 if column is None else column.constraining
        if not candidates:
            return 0
    for name, constraint in probe.constraints.items():
        candidates &= _within(grid.columns[name], constraint)
    return candidates


def may_overlap(grid: Grid[GridEntry], probe: Conjunction) -> int:
    """The entries that may overlap `probe`."""
    failed = 0
    for name, constraint in probe.constraints.items():
        column = grid.columns.get(name)
        if column is not None:
            failed |= _disjoint(column, constraint)
    return grid.alive & ~failed


def _narrower(column: Column, constraint: Constraint) -> int:
    """The bits that rule out a value which the constraint admits."""
    if constraint.kind is TypeConstraint.ANY:
        return _or(row for kind in _PRESENT for row in column.kinds[kind][1])
    if constraint.patterns:  # the buckets that patterns leave are unknown
        return _disjoint(column, constraint)
    boundaries, rows = column.kinds[constraint.kind]
    spans = buckets(boundaries, constraint.ranges)
    return _or(rows[edge] for span in spans for edge in span)  # rows between the edges rarely exclude more


def _within(column: Column, constraint: Constraint) -> int:
    """The bits that rule out all that the constraint rules out, among those that constrain the attribute."""
    admitted = _PRESENT if constraint.kind is TypeConstraint.ANY else (constraint.kind,)
    bits = column.constraining
    for kind, (boundaries, rows) in column.kinds.items():
        spans = buckets(boundaries, constraint.ranges) if kind in admitted else iter(())
        for row in _outside(rows, spans):
            bits &= row | column.patterned
    return bits


def _disjoint(column: Column, constraint: Constraint) -> int:
    """The bits that rule out all that the constraint admits."""
    admitted = _PRESENT if constraint.kind is TypeConstraint.ANY else (constraint.kind,)
    bits = column.constraining
    for kind in admitted:
        boundaries, rows = column.kinds[kind]
        for first, last in buckets(boundaries, constraint.ranges):
            for row in rows[first : last + 1]:
                bits &= row
    return bits


_PRESENT = (TypeConstraint.NUMBER, TypeConstraint.STRING, TypeConstraint.BOOLEAN, TypeConstraint.BYTES)


def _outside(rows: list[int], spans: Iterator[tuple[int, int]]) -> Iterator[int]:
    start = 0
    for first, last in spans:
        yield from rows[start:first]
        start = max(start, last + 1)
    yield from rows[start:]


def _or(rows: Iterable[int]) -> int:
    bits = 0
    for row in rows:
        bits |= row
    return bits
