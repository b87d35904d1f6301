"""Constraints as flat tuples, for the loop that runs once per candidate and event.

`holds` is `Conjunction.matches` with fewer calls, and tested equal. Most constraints are an interval that includes
its ends, or can be written as one: no integer or float lies between 50 and the next float, so x > 50 is x >= that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, TypeAlias

from pleach.core.events.constraint import KIND_OF, Constraint, TypeConstraint
from pleach.core.events.ranges import AFTER, BEFORE, Cut

# (attribute, kind, low, high, constraint): a plain tuple, because a loop unpacks it faster than a named one. The
# constraint is low <= value <= high, ends included, and low is None where it cannot be written so.
Predicate: TypeAlias = tuple[str, TypeConstraint, Any, Any, Constraint]
Getter: TypeAlias = Callable[[str], Any]

KIND_OF_CLASS: dict[type, TypeConstraint] = {
    **KIND_OF,
    NoneType: TypeConstraint.ABSENT,
}  # a missing attribute is None
EXACT_MAX = 2**53  # up to here every integer is a float


def predicates_of(constraints: Iterable[tuple[str, Constraint]]) -> tuple[Predicate, ...]:
    """Sorted by estimated selectivity, the most selective first."""
    ordered = sorted(constraints, key=lambda item: _looseness(item[1]))
    return tuple((name, c.kind, *_closed(c), c) for name, c in ordered)


def holds(predicates: tuple[Predicate, ...], get: Getter) -> bool:
    """Whether the event whose attributes `get` reads satisfies all of them."""
    for name, kind, low, high, constraint in predicates:
        value = get(name)
        if low is None:
            if not constraint.admits(value):
                return False
        elif KIND_OF_CLASS[value.__class__] is not kind or not low <= value <= high:
            return False
    return True


def _looseness(constraint: Constraint) -> int:
    """0 for one point, 1 for a bounded interval, 2 for one bound or a pattern, 3 for EXISTS, <> and the rest."""
    inside_first, cuts = constraint.ranges
    match inside_first, len(cuts):
        case False, 2:
            return 0 if cuts[0][0] == cuts[1][0] else 1
        case _, count:
            return 2 if constraint.patterns or count == 1 else 3


def _closed(constraint: Constraint) -> tuple[Any, Any]:
    """The ends of the constraint as a closed interval; (None, None) if it is not one."""
    inside_first, cuts = constraint.ranges
    if constraint.patterns or constraint.kind < TypeConstraint.NUMBER or len(cuts) + inside_first > 2 or not cuts:
        return None, None
    low = None if inside_first else cuts[0]
    high = cuts[-1] if inside_first or len(cuts) == 2 else None
    if low is not None and high is not None and low[0] == high[0]:
        return low[0], low[0]
    if constraint.kind is TypeConstraint.NUMBER and _is_exact(low) and _is_exact(high):
        return _closed_end(low, BEFORE, -math.inf), _closed_end(high, AFTER, math.inf)
    return None, None


def _is_exact(end: Cut | None) -> bool:
    return end is None or -EXACT_MAX < end[0] < EXACT_MAX


def _closed_end(end: Cut | None, side: int, infinity: float) -> int | float:
    """`side`: of the cut if the value itself belongs to the interval; `infinity`: the direction out of it."""
    if end is None:
        return infinity
    value: int | float = end[0]
    return value if end[1] == side else math.nextafter(value, -infinity)
