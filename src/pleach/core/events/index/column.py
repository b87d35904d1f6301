"""A column of a grid: the conjunctions that a value of one attribute rules out.

The values of each kind are divided into at most BUCKETS_MAX + 1 buckets at the endpoints of the constraints.
Bucket i holds the values from boundary i-1 (included) up to boundary i (excluded); its *row* has the bit of every
conjunction whose constraint no value of that bucket can satisfy:

    price > 50          bit 0          boundaries      50    80
    price < 80          bit 1          rows         01    00    10
    symbol = 'IBM'      bit 2          (bit 2 does not constrain price and is in no row)

A bit in a row is certain; a missing bit has to be verified. So buckets may be coarse, and there are few rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import xor
from types import NoneType
from typing import Any, TypeAlias

from pleach.core.events.constraint import KIND_OF, Pattern, TypeConstraint
from pleach.core.events.index.predicates import Predicate
from pleach.core.events.ranges import BEFORE, Cut, Ranges

BUCKETS_MAX = 64  # boundaries per attribute and kind
# The memo of values whose failing patterns are known. A value has at most 256 bytes, its row one bit for each slot of
# the grid, like each row of the column: so a memo takes a few times the memory that the patterns themselves take here.
PATTERN_MEMO_MAX = 256
MEMO_VALUES_PER_PATTERN = 4
MEMO_CHARACTERS_MAX = 64

Axis: TypeAlias = tuple[list[Any], list[int]]  # n boundaries, n + 1 rows

AXIS_KINDS = (
    TypeConstraint.ABSENT,
    TypeConstraint.NUMBER,
    TypeConstraint.STRING,
    TypeConstraint.BOOLEAN,
    TypeConstraint.BYTES,
)


class Column:
    """The rows of one attribute. The matching loop reads `axes` directly: class of the value → axis."""

    __slots__ = ("_memo", "_patterns", "axes", "constraining", "kinds", "patterned")

    def __init__(self, items: Sequence[tuple[int, Predicate]]) -> None:
        """The initial items determine the boundaries."""
        self.constraining = 0  # the bits that constrain this attribute
        self.patterned = 0  # those with patterns, which rows do not cover
        self._patterns: dict[Pattern, int] = {}
        self._memo: dict[str, int] = {}
        by_kind: dict[TypeConstraint, list[tuple[int, Predicate]]] = {}
        for bit, predicate in items:
            self._note(bit, predicate)
            by_kind.setdefault(predicate[1], []).append((bit, predicate))
        tolerant = _union(by_kind.get(TypeConstraint.ANY, ()))
        self.kinds: dict[TypeConstraint, Axis] = {}
        for kind in AXIS_KINDS:
            same = by_kind.get(kind, [])
            others = self.constraining & ~_union(same)
            self.kinds[kind] = _axis(kind, same, others if kind is TypeConstraint.ABSENT else others & ~tolerant)
        self.axes: dict[type, Axis] = {cls: self.kinds[kind] for cls, kind in KIND_OF.items()}
        self.axes[NoneType] = self.kinds[TypeConstraint.ABSENT]

    def add(self, bit: int, predicate: Predicate) -> None:
        is_any = predicate[1] is TypeConstraint.ANY
        for kind, (boundaries, rows) in self.kinds.items():
            if not boundaries and kind is not predicate[1] and not is_any:  # most kinds of most columns
                rows[0] |= bit
                continue
            for start, end in _ruled_out(predicate, kind, boundaries):
                rows[start:end] = [row | bit for row in rows[start:end]]
        self._note(bit, predicate)

    def _note(self, bit: int, predicate: Predicate) -> None:
        """Everything of a predicate except its rows."""
        patterns = predicate[4].patterns
        self.constraining |= bit
        if patterns:
            self.patterned |= bit
        for pattern in patterns:
            self._add_pattern(bit, pattern)

    def _add_pattern(self, bit: int, pattern: Pattern) -> None:
        self._patterns[pattern] = self._patterns.get(pattern, 0) | bit
        for value, row in self._memo.items():
            if not pattern.matches(value):
                self._memo[value] = row | bit

    def failing_patterns(self, value: Any) -> int:
        """The conjunctions whose patterns reject the value. Exact, and cached, since strings repeat."""
        if value.__class__ is not str:
            return 0  # ruled out by kind already
        row = self._memo.get(value)
        if row is None:
            row = 0
            for pattern, bits in self._patterns.items():
                if not pattern.matches(value):
                    row |= bits
            if len(value) <= MEMO_CHARACTERS_MAX:
                self._remember(value, row)
        return row

    def _remember(self, value: str, row: int) -> None:
        if len(self._memo) >= min(PATTERN_MEMO_MAX, MEMO_VALUES_PER_PATTERN * len(self._patterns)):
            self._memo.clear()
        self._memo[value] = row


def buckets(boundaries: list[Any], ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The buckets that may hold a value of the set, as inclusive spans, lowest first; spans may touch.

    A span may begin one bucket too early (x > 'a' begins in the bucket of 'a', which may hold nothing else). It does so
    for every set that begins there, and so a larger set never has fewer buckets. The cover index relies on that, and
    on sets being in the one spelling that the language gives them.
    """
    for low, high in ranges.intervals():
        first = 0 if low is None else bisect_right(boundaries, low[0])
        yield first, len(boundaries) if high is None else _last_bucket(boundaries, high)


def _last_bucket(boundaries: list[Any], high: Cut) -> int:
    value, side = high
    return bisect_left(boundaries, value) if side == BEFORE else bisect_right(boundaries, value)


def _ruled_out(predicate: Predicate, kind: TypeConstraint, boundaries: list[Any]) -> Iterator[tuple[int, int]]:
    """The rows, as half-open spans, of the buckets of one kind in which no value satisfies the predicate."""
    _, wanted, _, _, constraint = predicate
    start = 0
    if wanted is kind:
        for first, last in buckets(boundaries, constraint.ranges):
            if start < first:
                yield start, first
            start = max(start, last + 1)
    elif wanted is TypeConstraint.ANY and kind is not TypeConstraint.ABSENT:
        return
    if start <= len(boundaries):
        yield start, len(boundaries) + 1


def _axis(kind: TypeConstraint, items: Sequence[tuple[int, Predicate]], always: int) -> Axis:
    """The axis for predicates of this kind; the bits in `always` are those of others, ruled out in every bucket.

    Adding the items one by one would give the same rows. Here each bit toggles where its spans begin and end.
    """
    boundaries = _boundaries([value for _, predicate in items for value, _ in predicate[4].ranges.cuts])
    toggles = [always] + [0] * (len(boundaries) + 1)
    for bit, predicate in items:
        for start, end in _ruled_out(predicate, kind, boundaries):
            toggles[start] ^= bit
            toggles[end] ^= bit
    return boundaries, list(accumulate(toggles[:-1], xor))


def _union(items: Iterable[tuple[int, Predicate]]) -> int:
    bits = 0
    for bit, _ in items:
        bits |= bit
    return bits


def _boundaries(endpoints: list[Any]) -> list[Any]:
    """The endpoints; where these are too many, quantiles, so that every bucket is about as uncertain."""
    boundaries = sorted(set(endpoints))
    if len(boundaries) > BUCKETS_MAX:
        every = sorted(endpoints)
        boundaries = sorted({every[i * len(every) // BUCKETS_MAX] for i in range(BUCKETS_MAX)})
    return boundaries
