"""Values and events that prove what the algebra says: members of constraints, events that tell filters apart.

The algebra decides, this module shows. A value is given as a one-tuple, because None stands for a missing
attribute, and no tuple at all says that there is no such value (or that the search for a string gave up).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from pleach.core.events.algebra import separations
from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.ranges import BEFORE, Cut, Ranges, complement, first_of, intersection
from pleach.core.events.text_automaton import find_word

Found: TypeAlias = tuple[Any] | None


def counterexample(a: Conjunction, b: Conjunction) -> dict[str, Any] | None:
    """Attributes of an event that b matches and a does not; None where a covers b."""
    attributes: dict[str, Any] = {}
    for name, constraint in b.constraints.items():
        found = member(constraint)
        if found is None:
            return None
        _put(attributes, name, found)
    for name, constraint in a.constraints.items():
        apart = separator(constraint, b.constraints[name]) if name in b.constraints else _outside(constraint)
        if apart is not None:
            _put(attributes, name, apart)
            return attributes
    return None


def member(constraint: Constraint) -> Found:
    """Some value that the constraint admits."""
    match constraint.kind:
        case TypeConstraint.ABSENT:
            return (None,)
        case TypeConstraint.ANY:
            return (0,)
        case TypeConstraint.BOOLEAN:
            return next(((value,) for value in constraint.points() or ()), None)
        case TypeConstraint.STRING:
            word = find_word(constraint.ranges, constraint.patterns).word
            return None if word is None else (word,)
        case kind:
            return _in_ranges(constraint.ranges, kind)


def separator(a: Constraint, b: Constraint) -> Found:
    """Some value that b admits and a does not."""
    if a.kind is TypeConstraint.ANY:
        return (None,) if b.kind is TypeConstraint.ABSENT else None
    if b.kind is TypeConstraint.ANY:
        return _outside(a, missing=False)
    if a.kind is not b.kind:
        return member(b)
    if a.kind is TypeConstraint.STRING:
        words = (find_word(ranges, patterns).word for ranges, patterns in separations(a, b))
        return next(((word,) for word in words if word is not None), None)
    if a.kind is TypeConstraint.BOOLEAN:
        return next(((value,) for value in b.points() or () if not a.admits(value)), None)
    return _in_ranges(intersection(b.ranges, complement(a.ranges)), a.kind)


def _outside(constraint: Constraint, *, missing: bool = True) -> Found:
    """Some value that the constraint does not admit, of another kind; preferably none at all."""
    if missing and constraint.kind is not TypeConstraint.ABSENT:
        return (None,)
    return (True,) if constraint.kind is not TypeConstraint.BOOLEAN else (0,)


def _put(attributes: dict[str, Any], name: str, found: tuple[Any]) -> None:
    (value,) = found
    if value is None:
        attributes.pop(name, None)
    else:
        attributes[name] = value


def _in_ranges(ranges: Ranges, kind: TypeConstraint) -> Found:
    for low, high in ranges.intervals():
        if kind is TypeConstraint.NUMBER:
            return (_number_between(low, high),)
        return (b"" if low is None else first_of(low),)
    return None


def _number_between(low: Cut | None, high: Cut | None) -> Any:
    """A number within an interval; beyond the precision of floats an exact fraction."""
    if low is not None and low[1] == BEFORE:
        return low[0]
    if high is not None and high[1] != BEFORE:
        return high[0]
    if low is None:
        return 0 if high is None else math.ceil(high[0]) - 1
    if high is None:
        return math.floor(low[0]) + 1
    middle = (Fraction(low[0]) + Fraction(high[0])) / 2
    rounded = float(middle)
    return rounded if low[0] < rounded < high[0] else middle
