"""The predicates of the filter language as constraints of one attribute.

    Conjunction({"topic": equals("t1"), "price": greater(50)})

A constraint made here is in normal form: integral floats are integers, sets of booleans list their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pleach.core.events.constraint import ABSENT, ANY, KIND_OF, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.event import INTEGER_MAX, INTEGER_MIN
from pleach.core.events.ranges import (
    EVERYTHING,
    NOTHING,
    Ranges,
    above,
    below,
    complement,
    intersection,
    point,
    prefixed,
    union_of,
)


def kind_of(value: Any) -> TypeConstraint:
    return KIND_OF[value.__class__]


def canonical_value(value: Any) -> Any:
    """Numbers that compare equal become one: 5.0 is 5, -0.0 is 0. Floats beyond 64-bit integers stay."""
    if isinstance(value, float) and value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    return value


def exists() -> Constraint:
    return ANY


def absent() -> Constraint:
    return ABSENT


def equals(value: Any) -> Constraint:
    return Constraint(kind_of(value), point(canonical_value(value)))


def differs(value: Any) -> Constraint:
    return opposite(equals(value))


def less(value: Any) -> Constraint:
    return Constraint(kind_of(value), below(canonical_value(value), inclusive=False))


def at_most(value: Any) -> Constraint:
    return Constraint(kind_of(value), below(canonical_value(value), inclusive=True))


def greater(value: Any) -> Constraint:
    return Constraint(kind_of(value), above(canonical_value(value), inclusive=False))


def at_least(value: Any) -> Constraint:
    return Constraint(kind_of(value), above(canonical_value(value), inclusive=True))


def between(low: Any, high: Any) -> Constraint:
    """Both ends included."""
    return Constraint(kind_of(low), intersection(at_least(low).ranges, at_most(high).ranges))


def one_of(values: Iterable[Any]) -> Constraint:
    """`values`: at least one, all of one kind."""
    constraints = [equals(value) for value in values]
    return of_kind(constraints[0].kind, union_of(constraint.ranges for constraint in constraints))


def prefix(text: str) -> Constraint:
    return Constraint(TypeConstraint.STRING, prefixed(text))


def suffix(text: str) -> Constraint:
    return _pattern(Pattern(PatternShape.SUFFIX, text))


def contains(text: str) -> Constraint:
    return _pattern(Pattern(PatternShape.CONTAINS, text))


def of_kind(kind: TypeConstraint, ranges: Ranges = EVERYTHING) -> Constraint:
    """A constraint of a kind and ranges; sets of booleans in normal form."""
    if kind is not TypeConstraint.BOOLEAN:
        return Constraint(kind, ranges)
    match False in ranges, True in ranges:
        case True, True:
            return Constraint(kind, EVERYTHING)
        case False, False:
            return Constraint(kind, NOTHING)
        case _, admits_true:
            return Constraint(kind, point(admits_true))


def opposite(constraint: Constraint) -> Constraint:
    """NOT of a single predicate: the other values of its kind."""
    if constraint.kind is TypeConstraint.ABSENT:
        return ANY
    if constraint.kind is TypeConstraint.ANY:
        return ABSENT
    if not constraint.patterns:
        return of_kind(constraint.kind, complement(constraint.ranges))
    assert constraint.ranges.is_everything, "a predicate asks for a range or a pattern, never for both"
    (pattern,) = constraint.patterns
    return Constraint(TypeConstraint.STRING, EVERYTHING, (pattern._replace(negated=not pattern.negated),))


def _pattern(pattern: Pattern) -> Constraint:
    if not pattern.text:  # every string ends with and contains the empty one
        return Constraint(TypeConstraint.STRING)
    return Constraint(TypeConstraint.STRING, EVERYTHING, (pattern,))
