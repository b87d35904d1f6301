"""Filters from constraints, without a text to parse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pleach.core.events.constraint import Constraint
from pleach.core.events.expression import And, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.normalise import normalise


def filter_of(*conjunctions: Mapping[str, Constraint | Sequence[Constraint]]) -> Filter:
    """The filter that matches where one of `conjunctions` does; constraints on one attribute intersect."""
    return normalise(Or(tuple(And(tuple(_predicates(each))) for each in conjunctions)))


def _predicates(constraints: Mapping[str, Constraint | Sequence[Constraint]]) -> list[Predicate]:
    return [
        Predicate(name, constraint)
        for name, asked in constraints.items()
        for constraint in ([asked] if isinstance(asked, Constraint) else asked)
    ]
