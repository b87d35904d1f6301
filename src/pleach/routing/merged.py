"""Merging-based routing (S1 §2.2.3): filters that differ in one attribute travel as their union.

Which attribute is decided by the shape of a filter alone (its attributes and their kinds): the first numeric one,
or else the first of another kind. So all filters that agree on the rest fall into one bucket at every broker,
whatever came first, and merging merged filters further up the tree gives the same as merging their parts at once.

Perfect merging unites ranges exactly. With a bound, numeric gaps are closed while the share of what nobody asked
for stays within it (imperfect merging); the last broker still matches clients' own filters, so nothing spurious is
delivered.

A union of very many ranges is cut into filters at ranges picked by their content, so that one change rewrites one
piece and not the whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple
from zlib import crc32

from pleach.events import ranges as sets
from pleach.events.constraint import Conjunction, Constraint, Kind
from pleach.events.filter import Filter
from pleach.events.merge import fill_gaps
from pleach.events.ranges import NOTHING, Ranges
from pleach.routing.entries import Change, Difference, Entry

PIECE_RANGES_USUAL = 32  # one range in this many ends a piece


class Bucket(NamedTuple):
    """What filters have in common that merge: all but the ranges of one attribute."""

    attribute: str
    kind: Kind
    rest: Conjunction


def bucket_of(candidate: Filter) -> Bucket | None:
    """Where a filter merges; None where it cannot: several conjunctions, no ranges, or patterns in the way."""
    if len(candidate.conjunctions) != 1:
        return None
    constraints = candidate.conjunctions[0].constraints
    ranged = [(constraint.kind, name) for name, constraint in constraints.items() if constraint.kind >= Kind.NUMBER]
    if not ranged:
        return None
    kind, attribute = min(ranged)
    if constraints[attribute].patterns:
        return None
    rest = Conjunction({name: c for name, c in constraints.items() if name != attribute})
    return Bucket(attribute, kind, rest)


def merged(bucket: Bucket, members: Iterable[Filter], bound: float) -> frozenset[Filter]:
    """The filters that stand for all members of a bucket."""
    united = NOTHING
    for member in members:
        united = sets.union(united, member.conjunctions[0].constraints[bucket.attribute].ranges)
    if bound and bucket.kind is Kind.NUMBER:
        united = fill_gaps(united, bound)
    return frozenset(_filter(bucket, piece) for piece in _pieces(united))


def _filter(bucket: Bucket, piece: Ranges) -> Filter:
    return Filter([Conjunction({**bucket.rest.constraints, bucket.attribute: Constraint(bucket.kind, piece)})])


def _pieces(united: Ranges) -> Iterable[Ranges]:
    """Cut a union after ranges whose content says so. The pieces depend on the set alone, not on its history."""
    if len(united.cuts) <= 2 * PIECE_RANGES_USUAL:
        return [united]
    pieces = []
    inside_first, start = united.inside_first, 0
    for end in range(2 - inside_first, len(united.cuts), 2):
        if crc32(repr(united.cuts[end - 1]).encode()) % PIECE_RANGES_USUAL == 0:
            pieces.append(Ranges(inside_first, united.cuts[start:end]))
            inside_first, start = False, end
    pieces.append(Ranges(inside_first, united.cuts[start:]))
    return [piece for piece in pieces if not piece.is_empty]


class Merged:
    """The stage: keeps its buckets and rewrites only those that a change touches."""

    def __init__(self, bound: float = 0.0) -> None:
        self._bound = bound
        self._members: dict[Hashable, dict[Filter, None]] = {}
        self._output: dict[Hashable, frozenset[Filter]] = {}

    def apply(self, change: Change) -> Change:
        touched: dict[Hashable, None] = {}
        for entry in change.added:
            key = self._key(entry.filter)
            self._members.setdefault(key, {})[entry.filter] = None
            touched[key] = None
        for entry in change.removed:
            key = self._key(entry.filter)
            del self._members[key][entry.filter]
            touched[key] = None
        difference = Difference()
        for key in touched:
            self._rewrite(key, difference)
        return difference.change()

    def _key(self, candidate: Filter) -> Hashable:
        """The bucket, or the filter itself where it does not merge."""
        return bucket_of(candidate) or candidate

    def _rewrite(self, key: Hashable, difference: Difference) -> None:
        before = self._output.pop(key, frozenset())
        after = self._reduce(key)
        for gone in sorted(before - after):
            difference.remove(Entry("", gone))
        for new in sorted(after - before):
            difference.add(Entry("", new))

    def _reduce(self, key: Hashable) -> frozenset[Filter]:
        members = self._members[key]
        if not members:
            del self._members[key]
            return frozenset()
        output = merged(key, members, self._bound) if isinstance(key, Bucket) else frozenset(members)
        self._output[key] = output
        return output
