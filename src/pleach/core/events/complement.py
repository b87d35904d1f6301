"""Complements of filters, and partitions of all events by several filters.

`NOT` is not a complement: `NOT (x = 5)` needs a number, so an event without x, or with x = 'five', matches neither. A
complement matches those as well: every event matches exactly one of a filter and its complement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pleach.core.events.constraint import ABSENT, ANY, Constraint, TypeConstraint
from pleach.core.events.expression import And, Expression, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.normalise import normalise
from pleach.core.events.predicates import of_kind
from pleach.core.events.ranges import complement as other_ranges

KINDS_OF_VALUES = (TypeConstraint.NUMBER, TypeConstraint.STRING, TypeConstraint.BOOLEAN, TypeConstraint.BYTES)


def complement(wanted: Filter) -> Filter:
    """The filter that matches exactly what `wanted` does not; raises FilterError where it becomes too large."""
    return normalise(_all_but(wanted))


def divided(wanted: Filter, parts: Sequence[Filter]) -> list[Filter]:
    """One filter for each part, and one for the rest: every event that `wanted` matches is matched by exactly one.

    An event that several parts match belongs to the first of them. Raises FilterError where a filter becomes too large.
    """
    shares, rest = [], wanted
    for part in parts:
        shares.append(normalise(And((_expression(rest), _expression(part)))))
        rest = normalise(And((_expression(rest), _all_but(part))))
    return [*shares, rest]


def _expression(wanted: Filter) -> Expression:
    return Or(tuple(And(tuple(Predicate(*each) for each in c.constraints.items())) for c in wanted.conjunctions))


def _all_but(wanted: Filter) -> Expression:
    return And(
        tuple(
            Or(tuple(Predicate(name, other) for name, c in conjunction.constraints.items() for other in _others(c)))
            for conjunction in wanted.conjunctions
        )
    )


def _others(constraint: Constraint) -> Iterator[Constraint]:
    """The values that a constraint does not admit: none, of another kind, or another value of its kind."""
    if constraint.kind in (TypeConstraint.ABSENT, TypeConstraint.ANY):
        yield ANY if constraint.kind is TypeConstraint.ABSENT else ABSENT
        return
    yield ABSENT
    yield from (Constraint(kind) for kind in KINDS_OF_VALUES if kind is not constraint.kind)
    yield of_kind(constraint.kind, other_ranges(constraint.ranges))
    for pattern in constraint.patterns:
        yield Constraint(TypeConstraint.STRING, patterns=(pattern._replace(negated=not pattern.negated),))
