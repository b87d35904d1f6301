"""Normal form: turns an expression into a filter so that equivalent filters are mostly equal.

1. NOT is pushed down to the predicates, AND is distributed over OR: a list of conjunctions.
2. Constraints on one attribute are intersected; what admits nothing vanishes.
3. Each constraint is brought into its own normal form (`canonical`).
4. Conjunctions that differ in one attribute are united, those that another covers are dropped, until nothing
   changes.

Every step keeps exactly the events that match. The result is a fixed point: normalising it again changes
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, reduce
from itertools import product
from typing import TypeAlias

from pleach.core.events.algebra import (
    admits_something,
    conjunction_covers,
    covers_syntactically,
    intersect,
)
from pleach.core.events.constraint import Conjunction, Constraint, Pattern, TypeConstraint
from pleach.core.events.expression import And, Constant, Expression, Not, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.predicates import of_kind, opposite
from pleach.core.events.ranges import Ranges, point, union_of
from pleach.core.events.spelling import spell_conjunction
from pleach.core.events.text_automaton import find_word
from pleach.errors import FilterError

CONJUNCTIONS_MAX = 256
DISTRIBUTED_MAX = 4  # times the allowed conjunctions: what one AND may make before simplification
SEARCHED_CONJUNCTIONS_MAX = 8  # among more than these, covers are found by comparing constraints part by part
SEARCHED_PATTERNS_MAX = 4  # of more than these on one attribute, only pairs are compared
CONSTRAINTS_REMEMBERED = 4096

Conjunctions: TypeAlias = list[Conjunction]

TRUE = Conjunction({})


def normalise(expression: Expression, *, conjunctions_max: int = CONJUNCTIONS_MAX) -> Filter:
    return _finished(_Distribution(conjunctions_max).conjunctions_of(expression))


@lru_cache(maxsize=CONSTRAINTS_REMEMBERED)
def canonical(constraint: Constraint) -> Constraint | None:
    """The normal form of one constraint, None if it admits nothing."""
    if constraint.kind is TypeConstraint.BOOLEAN:
        constraint = of_kind(constraint.kind, constraint.ranges)
    if not constraint.patterns:
        return constraint if admits_something(constraint) else None
    listed = constraint.ranges.points()
    if listed is not None:
        fitting = [value for value in listed if constraint.admits(value)]
        return Constraint(TypeConstraint.STRING, union_of(map(point, fitting))) if fitting else None
    if not admits_something(constraint):
        return None
    return constraint._replace(patterns=_needed(constraint.ranges, tuple(sorted(set(constraint.patterns)))))


class _Distribution:
    """Steps 1 and 2. Nothing here searches: the work is bounded by the number of conjunctions alone."""

    def __init__(self, conjunctions_max: int) -> None:
        self._limit = conjunctions_max

    def conjunctions_of(self, expression: Expression, *, negated: bool = False) -> Conjunctions:
        match expression:
            case Constant(value):
                return [TRUE] if value != negated else []
            case Predicate(attribute, constraint):
                asked = opposite(constraint) if negated else constraint
                return [Conjunction({attribute: asked})] if _may_admit(asked) else []
            case Not(part):
                return self.conjunctions_of(part, negated=not negated)
            case And(parts) | Or(parts):
                lists = [self.conjunctions_of(part, negated=negated) for part in parts]
                together = isinstance(expression, And) != negated
                return self._all(lists) if together else self._either(lists)

    def _either(self, lists: list[Conjunctions]) -> Conjunctions:
        return self._simplified([conjunction for each in lists for conjunction in each])

    def _all(self, lists: list[Conjunctions]) -> Conjunctions:
        return reduce(self._both, sorted(lists, key=len), [TRUE])  # short ones first: few meet many only once

    def _both(self, left: Conjunctions, right: Conjunctions) -> Conjunctions:
        if len(left) * len(right) > self._limit * DISTRIBUTED_MAX:
            self._refuse(len(left) * len(right))
        joined = (_joined(a, b) for a, b in product(left, right))
        possible = [conjunction for conjunction in joined if conjunction is not None]
        return self._simplified(possible) if len(possible) > self._limit else possible

    def _simplified(self, conjunctions: Conjunctions) -> Conjunctions:
        fewer = _reduced(conjunctions, _covers_cheaply)
        if len(fewer) > self._limit:
            self._refuse(len(fewer))
        return fewer

    def _refuse(self, count: int) -> None:
        raise FilterError(
            f"the filter stands for {count:,} conjunctions once AND is distributed over OR, at most "
            f"{self._limit} are possible: use IN for alternatives of one attribute, or several subscriptions"
        )


def _may_admit(constraint: Constraint) -> bool:
    return not constraint.ranges.is_empty


def _joined(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """The intersection of both; None where they obviously contradict each other."""
    constraints = dict(a.constraints)
    for name, constraint in b.constraints.items():
        both = _both_constraints(constraints[name], constraint) if name in constraints else constraint
        if both is None or not _may_admit(both):
            return None
        constraints[name] = both
    return Conjunction(constraints)


def _both_constraints(a: Constraint, b: Constraint) -> Constraint | None:
    if a.kind is b.kind:
        return intersect(a, b)
    if TypeConstraint.ABSENT in (a.kind, b.kind):
        return None
    if a.kind is TypeConstraint.ANY:
        return b
    return a if b.kind is TypeConstraint.ANY else None


def _finished(conjunctions: Conjunctions) -> Filter:
    """Steps 3 and 4, repeated: united ranges may make a pattern redundant, or a search feasible."""
    before = conjunctions
    after = _step(before)
    while after != before:
        before, after = after, _step(after)
    return Filter(after)


def _step(conjunctions: Conjunctions) -> Conjunctions:
    possible = [c for c in map(_canonical_conjunction, conjunctions) if c is not None]
    covers = conjunction_covers if len(possible) <= SEARCHED_CONJUNCTIONS_MAX else _covers_cheaply
    return _reduced(possible, covers)


def _canonical_conjunction(conjunction: Conjunction) -> Conjunction | None:
    constraints = {}
    for name, constraint in conjunction.constraints.items():
        normal = canonical(constraint)
        if normal is None:
            return None
        constraints[name] = normal
    return Conjunction(constraints)


def _needed(ranges: Ranges, patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    """`patterns` without those that ranges and the others imply anyway."""
    for pattern in patterns:
        others = tuple(other for other in patterns if other != pattern)
        if any(other.implies(pattern) for other in others) or _imply(ranges, others, pattern):
            return _needed(ranges, others)
    return patterns


def _imply(ranges: Ranges, patterns: tuple[Pattern, ...], pattern: Pattern) -> bool:
    """True if every string in `ranges` that fits `patterns` fits `pattern` too, and few enough are asked for."""
    if len(patterns) >= SEARCHED_PATTERNS_MAX:
        return False
    search = find_word(ranges, (*patterns, pattern._replace(negated=not pattern.negated)))
    return search.word is None and search.complete


def _covers_cheaply(a: Conjunction, b: Conjunction) -> bool:
    inner = b.constraints
    return a.constraints.keys() <= inner.keys() and all(
        covers_syntactically(constraint, inner[name]) for name, constraint in a.constraints.items()
    )


def _reduced(conjunctions: Conjunctions, covers: Callable[[Conjunction, Conjunction], bool]) -> Conjunctions:
    """Unite and absorb until nothing changes; sorted, so that the source order does not matter."""
    before: Conjunctions = []
    after = conjunctions
    while len(after) > 1 and after != before:
        before = _sorted(after)
        after = _absorbed(_sorted(_united(before)), covers)
    return after


def _sorted(conjunctions: Conjunctions) -> Conjunctions:
    return sorted(set(conjunctions), key=spell_conjunction)


def _absorbed(conjunctions: Conjunctions, covers: Callable[[Conjunction, Conjunction], bool]) -> Conjunctions:
    kept: Conjunctions = []
    for candidate in conjunctions:
        if not any(covers(other, candidate) for other in kept):
            kept = [other for other in kept if not covers(candidate, other)]
            kept.append(candidate)
    return kept


def _united(conjunctions: Conjunctions) -> Conjunctions:
    names = sorted({name for conjunction in conjunctions for name in conjunction.constraints})
    return reduce(_united_along, (name for name in names if _differ(conjunctions, name)), conjunctions)


def _differ(conjunctions: Conjunctions, name: str) -> bool:
    return len({conjunction.constraints.get(name) for conjunction in conjunctions}) > 1


def _united_along(conjunctions: Conjunctions, name: str) -> Conjunctions:
    """Unite the conjunctions that are equal but for the ranges (or the presence) of attribute `name`."""
    result: Conjunctions = []
    groups: defaultdict[Conjunction, list[Constraint]] = defaultdict(list)
    for conjunction in conjunctions:
        if name in conjunction.constraints:
            rest = {other: c for other, c in conjunction.constraints.items() if other != name}
            groups[Conjunction(rest)].append(conjunction.constraints[name])
        else:
            result.append(conjunction)
    for shared, constraints in groups.items():
        alternatives = _alternatives(constraints)
        result += [Conjunction({**shared.constraints, name: c}) for c in alternatives] or [shared]
    return result


def _alternatives(constraints: list[Constraint]) -> list[Constraint]:
    """The fewest constraints that admit the same values; none if both missing and present are admitted."""
    ranges: defaultdict[tuple[TypeConstraint, tuple[Pattern, ...]], list[Ranges]] = defaultdict(list)
    for constraint in constraints:
        ranges[constraint.kind, constraint.patterns].append(constraint.ranges)
    if (TypeConstraint.ABSENT, ()) in ranges and (TypeConstraint.ANY, ()) in ranges:
        return []
    return [
        Constraint(kind, union_of(parts), patterns) if patterns else of_kind(kind, union_of(parts))
        for (kind, patterns), parts in ranges.items()
    ]
