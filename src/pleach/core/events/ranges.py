"""Sets of values along one ordered axis, represented by the cuts where the set begins and ends.

A *cut* lies between values: `(v, BEFORE)` just below v, `(v, AFTER)` just above. A set is the side on which
it starts (at minus infinity) and the sorted cuts at which it toggles:

    x > 50            starts outside, toggles at (50, AFTER)
    x <> 5            starts inside,  toggles at (5, BEFORE), (5, AFTER)
    x IN (1, 2)       starts outside, toggles at (1, BEFORE), (1, AFTER), (2, BEFORE), (2, AFTER)

Complement, intersection, union and inclusion are then one merge of sorted cuts, exact and complete. Numbers
are real numbers: between any two lies another. Strings and bytes are not dense: nothing lies between `s` and
`s + "\\0"`, so `(s + "\\0", BEFORE)` is the same place as `(s, AFTER)` and is always written as the latter;
and nothing lies before the empty string, so a set of strings that holds it starts inside.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

BEFORE, AFTER = 0, 1

Cut: TypeAlias = tuple[Any, int]
Interval: TypeAlias = tuple[Cut | None, Cut | None]  # None stands for an open end

RUN_MAX = 16  # longest run of neighbouring strings (s, s+"\0", s+"\0\0", …) that `points` lists
RUN_LENGTH_MAX = 64  # of its strings: a list of long ones would be many times as long as the two ends

CHARACTER_MAX = "\U0010ffff"
SURROGATES = range(0xD800, 0xE000)  # code points that no valid text contains


class Ranges(NamedTuple):
    inside_first: bool
    cuts: tuple[Cut, ...]

    def __contains__(self, value: object) -> bool:
        return self.inside_first != bool(bisect_right(self.cuts, (value, BEFORE)) & 1)

    @property
    def is_empty(self) -> bool:
        return not self.inside_first and not self.cuts

    @property
    def is_everything(self) -> bool:
        return self.inside_first and not self.cuts

    def points(self) -> tuple[Any, ...] | None:
        """The values of a finite set, or None where it holds an interval."""
        found: list[Any] = []
        for low, high in self.intervals():
            run = _run(low, high)
            if run is None:
                return None
            found.extend(run)
        return tuple(found)

    def intervals(self) -> Iterator[Interval]:
        """The maximal intervals, lowest first."""
        if len(self.cuts) == 2 and not self.inside_first:  # most sets
            yield self.cuts
            return
        cuts: list[Cut | None] = [None, *self.cuts] if self.inside_first else list(self.cuts)
        if len(cuts) % 2:
            cuts.append(None)
        yield from zip(cuts[::2], cuts[1::2], strict=True)


EVERYTHING = Ranges(inside_first=True, cuts=())
NOTHING = Ranges(inside_first=False, cuts=())


def cut(value: Any, side: int) -> Cut:
    """The cut beside `value`, in its canonical form."""
    if side == BEFORE and value.__class__ in (str, bytes) and value[-1:] in ("\0", b"\0"):
        return (value[:-1], AFTER)
    return (value, side)


def below(value: Any, *, inclusive: bool) -> Ranges:
    place = cut(value, AFTER if inclusive else BEFORE)
    if place in (("", BEFORE), (b"", BEFORE)):  # nothing is less than the empty string
        return NOTHING
    return Ranges(inside_first=True, cuts=(place,))


def above(value: Any, *, inclusive: bool) -> Ranges:
    return complement(below(value, inclusive=not inclusive))


def point(value: Any) -> Ranges:
    return intersection(above(value, inclusive=True), below(value, inclusive=True))


def prefixed(text: str) -> Ranges:
    """The strings that start with `text`: one interval, because strings compare character by character."""
    end = prefix_end(text)
    start = above(text, inclusive=True)
    return start if end is None else intersection(start, below(end, inclusive=False))


def prefix_end(text: str) -> str | None:
    """The least string above everything that starts with `text`, None where there is none."""
    stem = text.rstrip(CHARACTER_MAX)
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


def interval_prefix(low: Cut | None, high: Cut | None) -> str | None:
    """The text that the strings of an interval start with, if it is exactly the strings that do."""
    if low is None or high is None or not isinstance(low[0], str):
        return None
    text = first_of(low)
    return text if (prefix_end(text), BEFORE) == high else None


def first_of(low: Cut) -> Any:
    """The least string (or bytes) above a cut."""
    value, side = low
    return value if side == BEFORE else value + _nul(value)


def complement(a: Ranges) -> Ranges:
    return Ranges(inside_first=not a.inside_first, cuts=a.cuts)


def intersection(a: Ranges, b: Ranges) -> Ranges:
    if a.is_everything:
        return b
    return a if b.is_everything else _combine(a, b, lambda in_a, in_b: in_a and in_b)


def union(a: Ranges, b: Ranges) -> Ranges:
    return _combine(a, b, lambda in_a, in_b: in_a or in_b)


def union_of(parts: Iterable[Ranges]) -> Ranges:
    """The union of many: pairwise in rounds, so that n points cost n log n steps."""
    pending = list(parts) or [NOTHING]
    while len(pending) > 1:
        odd = pending[-1:] if len(pending) % 2 else []
        pending = [union(a, b) for a, b in zip(pending[::2], pending[1::2], strict=False)] + odd
    return pending[0]


def includes(outer: Ranges, inner: Ranges) -> bool:
    """True if `outer` holds every value of `inner`: it is inside where an interval starts, and stays until it ends."""
    cuts = outer.cuts
    if len(inner.cuts) == 1:  # one comparison, the most frequent case beside a bounded interval
        (end,) = inner.cuts
        passed = bisect_left(cuts, end) if inner.inside_first else len(cuts) - bisect_right(cuts, end)
        at_open_end = outer.inside_first if inner.inside_first else outer.inside_first != bool(len(cuts) & 1)
        return not passed and at_open_end
    for low, high in inner.intervals():
        passed = 0 if low is None else bisect_right(cuts, low)
        if outer.inside_first == bool(passed & 1):
            return False
        if passed != (len(cuts) if high is None else bisect_left(cuts, high)):
            return False
    return True


def disjoint(a: Ranges, b: Ranges) -> bool:
    return includes(complement(a), b)


def _combine(a: Ranges, b: Ranges, rule: Callable[[bool, bool], bool]) -> Ranges:
    """Merge both sets from minus infinity and collect the cuts where `rule` changes."""
    in_a, in_b = a.inside_first, b.inside_first
    inside = first = rule(in_a, in_b)
    out: list[Cut] = []
    for place, toggles_a, toggles_b in _merged(a.cuts, b.cuts):
        in_a ^= toggles_a
        in_b ^= toggles_b
        if rule(in_a, in_b) != inside:
            inside = not inside
            out.append(place)
    return Ranges(inside_first=first, cuts=tuple(out))


def _merged(a: Sequence[Cut], b: Sequence[Cut]) -> Iterator[tuple[Cut, bool, bool]]:
    i = j = 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] < b[j]):
            yield a[i], True, False
            i += 1
        elif i == len(a) or b[j] < a[i]:
            yield b[j], False, True
            j += 1
        else:
            yield a[i], True, True
            i += 1
            j += 1


def _run(low: Cut | None, high: Cut | None) -> tuple[Any, ...] | None:
    """The values of one interval if they are few: a single value, or strings that differ by trailing NULs."""
    if high is None:
        return None
    last, side = high
    if last.__class__ not in (str, bytes):
        return (last,) if low is not None and low[0] == last else None
    first = last[:0] if low is None else first_of(low)
    extra = len(last) - len(first)
    if side == BEFORE or not 0 <= extra <= RUN_MAX or last != first + _nul(last) * extra:
        return None
    if extra and len(last) > RUN_LENGTH_MAX:
        return None
    return tuple(first + _nul(last) * count for count in range(extra + 1))


def _nul(value: Any) -> Any:
    """The least character, or byte."""
    return "\0" if isinstance(value, str) else b"\0"


def fill_gaps(ranges: Ranges, bound: float) -> Ranges:
    """`ranges` with gaps between numbers closed, the smallest first, while the added share stays within `bound`.

    The share is the length that was added, divided by that of the result. The result depends on the set alone.
    """
    if bound <= 0 or not ranges.cuts or not _is_number(ranges.cuts[0][0]):
        return ranges
    solid = sum(high[0] - low[0] for low, high in ranges.intervals() if low is not None and high is not None)
    gaps = [(low[0] - high[0], high, low) for (_, high), (low, _) in pairwise(ranges.intervals()) if high and low]
    added: float = 0
    closed = set()
    for width, high, low in sorted(gaps):
        added += width
        if not _is_within(added, solid + added, bound):
            break
        closed |= {high, low}
    return ranges._replace(cuts=tuple(cut for cut in ranges.cuts if cut not in closed))


def _is_within(added: float, total: float, bound: float) -> bool:
    """True if `added` is at most the share `bound` of `total`, a length that is finite and not zero."""
    return 0 < total < math.inf and added <= bound * total


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
