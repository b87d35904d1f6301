"""The placement of a conjunction in the matching index: under the equalities that the fewest conjunctions share.

Values with many subscriptions are usually published often. The cluster of a rare equality is small and rarely visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.index.predicates import Predicate, predicates_of

POINTS_MAX = 4  # an IN of at most this many values counts as equalities
PLACES_MAX = 8  # of one conjunction


class Equality(NamedTuple):
    name: str
    value: Any


class IndexPlacement(NamedTuple):
    equalities: tuple[Equality, ...]  # none, one or two, the rarest first
    rest: tuple[Predicate, ...]  # predicates that remain to be verified


Choice: TypeAlias = tuple[str, tuple[Any, ...]]  # an attribute, and the values that a conjunction admits for it


class Popularity:
    """The number of conjunctions with each equality, chosen for their placement or not."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Any, int]] = {}

    def of(self, choice: Choice) -> int:
        name, values = choice
        counts = self._counts.get(name, {})
        return sum(counts.get(value, 0) for value in values)

    def add(self, options: Iterable[Choice]) -> None:
        for name, value in _equalities(options):
            counts = self._counts.setdefault(name, {})
            counts[value] = counts.get(value, 0) + 1

    def remove(self, options: Iterable[Choice]) -> None:
        for name, value in _equalities(options):
            counts = self._counts[name]
            counts[value] -= 1
            if not counts[value]:
                del counts[value]
            if not counts:
                del self._counts[name]


def _equalities(options: Iterable[Choice]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, values in options for value in values)


def choices(conjunction: Conjunction) -> list[Choice]:
    """The equalities to choose from. An unsatisfiable conjunction has a choice without values."""
    found = ((name, _few_points(constraint)) for name, constraint in conjunction.constraints.items())
    return [(name, values) for name, values in found if values is not None]


def _few_points(constraint: Constraint) -> tuple[Any, ...] | None:
    """`constraint.points()` where these are few. On the path of every change, so only `=` and IN are recognised."""
    inside_first, cuts = constraint.ranges
    count = len(cuts)
    if (
        inside_first
        or count % 2
        or count > 2 * POINTS_MAX
        or constraint.patterns
        or constraint.kind < TypeConstraint.NUMBER
    ):
        return None
    if count == 2:
        value = cuts[0][0]
        return (value,) if value == cuts[1][0] else None
    pairs = zip(cuts[::2], cuts[1::2], strict=True)
    values = [low[0] for low, high in pairs if low[0] == high[0]]
    return tuple(values) if 2 * len(values) == count else None


def places(conjunction: Conjunction, options: list[Choice], popularity: Popularity) -> Iterator[IndexPlacement]:
    """One placement per combination of the chosen equalities' values; none for an unsatisfiable conjunction."""
    chosen = _chosen(sorted(options, key=lambda choice: (popularity.of(choice), choice[0])))
    settled = {name for name, values in chosen if not _is_ambiguous(values)}
    rest = predicates_of(item for item in conjunction.constraints.items() if item[0] not in settled)
    for values in product(*(values for _, values in chosen)):
        equalities = (Equality(name, value) for (name, _), value in zip(chosen, values, strict=True))
        yield IndexPlacement(tuple(equalities), rest)


def _chosen(ranked: list[Choice]) -> list[Choice]:
    if len(ranked) > 1 and len(ranked[0][1]) * len(ranked[1][1]) > PLACES_MAX:
        return ranked[:1]
    return ranked[:2]


def _is_ambiguous(values: tuple[Any, ...]) -> bool:
    """0 and 1 are the same dictionary keys as False and True: there the kind has to be verified."""
    return 0 in values or 1 in values
