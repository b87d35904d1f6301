"""Merging-based routing (S1 §2.2.3): filters that differ in one attribute are exported as their union.

The attribute follows from the shape of a filter (its attributes and their kinds): the first numeric one, or else the
first of another kind. So all filters that agree on the rest fall into one bucket at every broker, independent of
arrival order, and merging merged filters at the next broker gives the same as merging their parts.

A merged filter from another broker may be covered here by several filters together but by none alone, although each of
its parts would have been covered; it would cost an entry that covering saves. So a bucket whose ranges lie within those
of wider buckets on the same attribute is left out until the wider ones are removed.

Perfect merging unites ranges exactly. With a bound, numeric gaps are closed while the added share stays within it
(imperfect merging); the last broker still matches clients' own filters, so no false event is delivered.

A union of many ranges is split into filters at ranges selected by their content, so that one change rewrites one piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

from pleach.core.events.budget import EFFECTIVE, PIECE_BYTES_MAX, PIECE_RANGES_MAX
from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter
from pleach.core.events.normalise import weight
from pleach.core.events.ranges import NOTHING, Cut, Ranges, fill_gaps, includes, union_of
from pleach.core.events.spelling import spell_conjunction
from pleach.core.routing.entries import Change, Difference, Entry
from pleach.core.routing.stages import hides

MERGED_KINDS = frozenset(
    {TypeConstraint.NUMBER, TypeConstraint.STRING, TypeConstraint.BYTES}
)  # booleans have no ranges to unite
PIECE_RANGES_USUAL = 32  # one range in this many ends a piece
NUMBER_BYTES_MAX = 32  # of its text


class Bucket(NamedTuple):
    """The common part of filters that merge: all but the ranges of one attribute."""

    attribute: str
    kind: TypeConstraint
    rest: Conjunction


def bucket_of(candidate: Filter) -> Bucket | None:
    """The bucket of a filter; None where it cannot merge: several conjunctions, no ranges, or patterns."""
    if len(candidate.conjunctions) != 1:
        return None
    constraints = candidate.conjunctions[0].constraints
    ranged = [(constraint.kind, name) for name, constraint in constraints.items() if constraint.kind in MERGED_KINDS]
    if not ranged:
        return None
    kind, attribute = min(ranged)
    if constraints[attribute].patterns:
        return None
    rest = Conjunction({name: c for name, c in constraints.items() if name != attribute})
    return Bucket(attribute, kind, rest) if _leaves_room(candidate, rest) else None


def _leaves_room(candidate: Filter, rest: Conjunction) -> bool:
    """Whether a neighbour accepts `rest` with any piece: always, unless another broker has sent what none makes."""
    if weight(rest) > EFFECTIVE.conditions:
        return False
    is_short = 4 * len(candidate.text) <= EFFECTIVE.normal_bytes  # a character has at most four bytes
    return is_short or len(spell_conjunction(rest).encode()) <= EFFECTIVE.normal_bytes


def unite(bucket: Bucket, members: Iterable[Filter], bound: float) -> Ranges:
    """The united ranges of a bucket's members, with gaps closed within the bound."""
    united = union_of([member.conjunctions[0].constraints[bucket.attribute].ranges for member in members])
    return fill_gaps(united, bound) if bound and bucket.kind is TypeConstraint.NUMBER else united


def mergers(bucket: Bucket, united: Ranges, wider: Iterable[Ranges]) -> frozenset[Filter]:
    """The filters that represent a bucket; none where wider buckets include all of it."""
    if includes(union_of(list(wider)), united):
        return frozenset()
    return frozenset(_filter(bucket, piece) for piece in _pieces(bucket.attribute, united))


def is_wider(one: Bucket, other: Bucket) -> bool:
    """Whether the common part of `one` covers that of `other`, on the same attribute."""
    same_axis = (one.attribute, one.kind) == (other.attribute, other.kind)
    return same_axis and one != other and hides(Filter([one.rest]), Filter([other.rest]))


def _filter(bucket: Bucket, piece: Ranges) -> Filter:
    return Filter([Conjunction({**bucket.rest.constraints, bucket.attribute: Constraint(bucket.kind, piece)})])


def _pieces(attribute: str, united: Ranges) -> Iterable[Ranges]:
    """Split a union after ranges selected by their hash. The pieces depend on the set alone, not on its history.

    A piece that the hashes leave too long for the budget of carried filters ends there.
    """
    is_short = len(united.cuts) <= 2 * PIECE_RANGES_USUAL
    pieces = []
    inside_first, start, size = united.inside_first, 0, 0
    for end in range(2 - inside_first, len(united.cuts) + 2, 2):
        added = _spelled_bytes(attribute, united.cuts[end - 2 if end > 1 else 0 : end])
        if start < end - 2 and (size + added > PIECE_BYTES_MAX or end - start > 2 * PIECE_RANGES_MAX):
            pieces.append(Ranges(inside_first, united.cuts[start : end - 2]))
            inside_first, start, size = False, end - 2, 0
        size += added
        if not is_short and end < len(united.cuts) and _ends_piece(united.cuts[end - 1]):
            pieces.append(Ranges(inside_first, united.cuts[start:end]))
            inside_first, start, size = False, end, 0
    pieces.append(Ranges(inside_first, united.cuts[start:]))
    return [piece for piece in pieces if not piece.is_empty]


def _ends_piece(last: Cut) -> bool:
    return crc32(repr(last).encode()) % PIECE_RANGES_USUAL == 0


def _spelled_bytes(attribute: str, cuts: Iterable[Cut]) -> int:
    """At most so many bytes has the text of one range."""
    return sum(2 * len(attribute.encode()) + 16 + _value_bytes(value) for value, _ in cuts)


def _value_bytes(value: Any) -> int:
    """Quotes are doubled, bytes are two digits."""
    if isinstance(value, str):
        return 2 * len(value.encode())
    return 2 * len(value) if isinstance(value, bytes) else NUMBER_BYTES_MAX


class Merged:
    """The stage: rewrites only buckets that a change touches, and those within a touched one."""

    def __init__(self, bound: float = 0.0) -> None:
        self._bound = bound
        self._members: dict[Bucket | Filter, dict[Filter, None]] = {}
        self._output: dict[Bucket | Filter, frozenset[Filter]] = {}
        self._buckets = Buckets()

    def apply(self, change: Change) -> Change:
        touched: dict[Bucket | Filter, None] = {}
        for entry in change.added:
            key = merge_key(entry.filter)
            self._members.setdefault(key, {})[entry.filter] = None
            touched[key] = None
        for entry in change.removed:
            key = merge_key(entry.filter)
            del self._members[key][entry.filter]
            touched[key] = None
        difference = Difference()
        for key in self._affected(touched):
            self._rewrite(key, difference)
        return difference.change()

    def _affected(self, touched: Iterable[Bucket | Filter]) -> Iterable[Bucket | Filter]:
        """The touched buckets, and those within them, which may become needed or redundant."""
        affected = dict.fromkeys(touched)
        for bucket in [key for key in affected if isinstance(key, Bucket)]:
            members = self._members[bucket]
            self._buckets.set(bucket, unite(bucket, members, self._bound) if members else NOTHING)
            affected |= dict.fromkeys(self._buckets.narrower(bucket))
        return affected

    def _rewrite(self, key: Bucket | Filter, difference: Difference) -> None:
        before = self._output.pop(key, frozenset())
        after = self._reduced(key)
        for gone in sorted(before - after):
            difference.remove(Entry("", gone))
        for new in sorted(after - before):
            difference.add(Entry("", new))

    def _reduced(self, key: Bucket | Filter) -> frozenset[Filter]:
        members = self._members.get(key)
        if not members:
            self._members.pop(key, None)
            return frozenset()
        if isinstance(key, Bucket):
            output = mergers(key, self._buckets.united[key], self._buckets.wider(key))
        else:
            output = frozenset(members)
        self._output[key] = output
        return output


class Buckets:
    """The united ranges of each bucket, and which buckets are wider or narrower than another."""

    def __init__(self) -> None:
        self.united: dict[Bucket, Ranges] = {}
        self._rests: dict[tuple[str, TypeConstraint], CoverIndex] = {}  # by attribute and its kind

    def set(self, bucket: Bucket, united: Ranges) -> None:
        rests = self._rests.setdefault((bucket.attribute, bucket.kind), CoverIndex())
        if united.is_empty:
            del self.united[bucket]
            rests.remove(Filter([bucket.rest]))
        else:
            self.united[bucket] = united
            rests.add(Filter([bucket.rest]))

    def wider(self, bucket: Bucket) -> list[Ranges]:
        rest = Filter([bucket.rest])
        return [
            self.united[bucket._replace(rest=other.conjunctions[0])]
            for other in self._rests[bucket.attribute, bucket.kind].covering(rest)
            if hides(other, rest)
        ]

    def narrower(self, bucket: Bucket) -> list[Bucket]:
        rest = Filter([bucket.rest])
        found = self._rests[bucket.attribute, bucket.kind].covered(rest)
        return [bucket._replace(rest=other.conjunctions[0]) for other in found if hides(rest, other)]


def merge_key(candidate: Filter) -> Bucket | Filter:
    """The bucket of a filter, or the filter itself where it does not merge."""
    return bucket_of(candidate) or candidate
