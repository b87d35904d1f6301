"""One filter for two: exactly their union, or a little more than it where that is allowed.

How much more is measured along numbers: the *share* is the length (area, volume) that was added, divided by
that of the result. Ends that go to infinity count for nothing, so the true share is never above the computed.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from pleach.core.events.algebra import covers
from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.normalise import union_of_filters
from pleach.core.events.ranges import Interval, Ranges, intersection, union


def merge(a: Filter, b: Filter) -> Filter | None:
    """The filter that matches exactly what a or b matches, if it is no longer than they are.

    That is so where one covers the other, or where both are conjunctions that differ in one attribute.
    """
    if covers(a, b):
        return a
    if covers(b, a):
        return b
    if len(a.conjunctions) != 1 or len(b.conjunctions) != 1:
        return None
    united = union_of_filters((a, b))
    return united if len(united.conjunctions) == 1 else None


def merge_within(a: Filter, b: Filter, bound: float) -> Filter | None:
    """Like `merge`, but may match more than a or b does, up to a share of `bound` (0 allows nothing more)."""
    exact = merge(a, b)
    if exact is a or exact is b or len(a.conjunctions) != 1 or len(b.conjunctions) != 1:
        return exact
    (first,), (second,) = a.conjunctions, b.conjunctions
    differing = _differing_numbers(first, second)
    match differing:
        case []:
            return exact
        case [name]:
            both = union(first.constraints[name].ranges, second.constraints[name].ranges)
            return _replaced(first, {name: fill_gaps(both, bound)})
        case _:
            return _box(first, second, differing, bound)


def fill_gaps(ranges: Ranges, bound: float) -> Ranges:
    """`ranges` with gaps between numbers closed, the smallest first, while the share stays within `bound`.

    A function of the set alone: however it came about, and in whatever order, the result is the same.
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


def _differing_numbers(a: Conjunction, b: Conjunction) -> list[str]:
    """The attributes in which two conjunctions differ; none if it is not by ranges of numbers alone."""
    if a.constraints.keys() != b.constraints.keys():
        return []
    differing = [name for name in a.constraints if a.constraints[name] != b.constraints[name]]
    kinds = {conjunction.constraints[name].kind for conjunction in (a, b) for name in differing}
    return differing if kinds == {TypeConstraint.NUMBER} else []


def _box(a: Conjunction, b: Conjunction, names: list[str], bound: float) -> Filter | None:
    """Both conjunctions within the product of their united ranges, if that adds little enough."""
    sides = {name: union(a.constraints[name].ranges, b.constraints[name].ranges) for name in names}
    shared = [intersection(a.constraints[name].ranges, b.constraints[name].ranges) for name in names]
    total = _volume(list(sides.values()))
    kept = _volume(_ranges(a, names)) + _volume(_ranges(b, names)) - _volume(shared)
    return _replaced(a, sides) if bound > 0 and _is_within(total - kept, total, bound) else None


def _ranges(conjunction: Conjunction, names: list[str]) -> list[Ranges]:
    return [conjunction.constraints[name].ranges for name in names]


def _volume(sides: list[Ranges]) -> float:
    lengths = [sum(map(_length, side.intervals())) for side in sides]
    return 0.0 if 0 in lengths else math.prod(lengths)


def _length(interval: Interval) -> float:
    low, high = interval
    if low is None or high is None:
        return math.inf
    length: float = high[0] - low[0]
    return length


def _replaced(conjunction: Conjunction, ranges: dict[str, Ranges]) -> Filter:
    constraints = {name: Constraint(TypeConstraint.NUMBER, each) for name, each in ranges.items()}
    return Filter([Conjunction({**conjunction.constraints, **constraints})])
