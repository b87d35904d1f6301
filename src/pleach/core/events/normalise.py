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

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from typing import TypeAlias

from pleach.core.events.algebra import (
    admits_something,
    constraint_covers,
    covers_syntactically,
    intersect,
)
from pleach.core.events.budget import ASKED, FilterBudget, NormalisationSteps, Steps
from pleach.core.events.constraint import Conjunction, Constraint, Pattern, TypeConstraint
from pleach.core.events.expression import And, Constant, Expression, Not, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.predicates import of_kind, opposite
from pleach.core.events.ranges import Ranges, point, union_of
from pleach.core.events.spelling import spell_conjunction
from pleach.core.events.text_automaton import find_word
from pleach.errors import FilterError

DISTRIBUTED_MAX = 4  # times the allowed conjunctions: what one AND may make before simplification
SEARCHED_CONJUNCTIONS_MAX = 8  # among more than these, covers are found by comparing constraints part by part
SEARCHED_PATTERNS_MAX = 4  # of more than these on one attribute, only pairs are compared

COMPARED_CHARACTERS_PER_STEP = 4096  # products of lengths: short texts are searched for naively

Conjunctions: TypeAlias = list[Conjunction]
Covers: TypeAlias = Callable[[Conjunction, Conjunction], bool]

TRUE = Conjunction({})


def normalise(expression: Expression, budget: FilterBudget = ASKED) -> Filter:
    """Raises FilterError where the budget does not suffice."""
    steps = NormalisationSteps(budget.steps)
    conjunctions = _Distribution(budget.conjunctions, steps).conjunctions_of(expression)
    made = Filter(_finished(conjunctions, steps))
    _check_size(made, budget)
    return made


def _check_size(made: Filter, budget: FilterBudget) -> None:
    conditions = sum(map(weight, made.conjunctions))
    if conditions > budget.conditions:
        raise FilterError(
            f"the filter has {conditions:,} conditions in normal form, at most {budget.conditions:,} are possible: "
            "use several subscriptions, or fewer alternatives beside many conditions"
        )
    size = len(made.text.encode())
    if size > budget.normal_bytes:
        raise FilterError(
            f"the filter has {size:,} bytes in normal form, at most {budget.normal_bytes:,} are possible: "
            "use shorter literals, fewer alternatives, or several subscriptions"
        )


def weight(conjunction: Conjunction) -> int:
    """The number of its conditions: intervals, single values and patterns."""
    return 1 + sum((len(c.ranges.cuts) + 1) // 2 + len(c.patterns) for c in conjunction.constraints.values())


def canonical(constraint: Constraint, steps: Steps | None = None) -> Constraint | None:
    """The normal form of one constraint, None if it admits nothing."""
    steps = steps or Steps()
    if constraint.kind is TypeConstraint.BOOLEAN:
        constraint = of_kind(constraint.kind, constraint.ranges)
    if not constraint.patterns:
        return constraint if admits_something(constraint, steps) else None
    listed = constraint.ranges.points()
    if listed is not None:
        steps.take(len(listed) * len(constraint.patterns))
        fitting = [value for value in listed if constraint.admits(value)]
        return Constraint(TypeConstraint.STRING, union_of(map(point, fitting))) if fitting else None
    if not admits_something(constraint, steps):
        return None
    return constraint._replace(patterns=_needed(constraint.ranges, tuple(sorted(set(constraint.patterns))), steps))


class _Distribution:
    """Points 1 and 2. Nothing here searches."""

    def __init__(self, conjunctions_max: int, steps: Steps) -> None:
        self._limit = conjunctions_max
        self._steps = steps

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
        """United, so that alternatives of one attribute are one; further simplified only where these are too many."""
        every = [conjunction for each in lists for conjunction in each]
        self._steps.take(sum(map(weight, every)))
        united = _united(every, self._steps)
        return self._simplified(united) if len(united) > self._limit else united

    def _all(self, lists: list[Conjunctions]) -> Conjunctions:
        single = [conjunction for each in lists if len(each) == 1 for conjunction in each]
        several = sorted((each for each in lists if len(each) != 1), key=len)  # few meet many only once
        self._steps.take(sum(map(weight, single)))
        joined = _joined(*single)
        return reduce(self._both, several, [] if joined is None else [joined])

    def _both(self, left: Conjunctions, right: Conjunctions) -> Conjunctions:
        if len(left) * len(right) > self._limit * DISTRIBUTED_MAX:
            self._refuse(len(left) * len(right))
        self._steps.take(len(left) * sum(map(weight, right)) + len(right) * sum(map(weight, left)))
        joined = (_joined(a, b) for a, b in product(left, right))
        possible = [conjunction for conjunction in joined if conjunction is not None]
        return self._simplified(possible) if len(possible) > self._limit else possible

    def _simplified(self, conjunctions: Conjunctions) -> Conjunctions:
        fewer = _reduced(conjunctions, _covers_cheaply, self._steps)
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


def _joined(*parts: Conjunction) -> Conjunction | None:
    """The intersection of all; None where they obviously contradict each other."""
    constraints: dict[str, Constraint] = {}
    for part in parts:
        for name, constraint in part.constraints.items():
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


def _finished(conjunctions: Conjunctions, steps: Steps) -> Conjunctions:
    """Points 3 and 4, repeated: united ranges may make a pattern redundant, or a search feasible."""
    steps.take(sum(map(weight, conjunctions)))
    before = _sorted(conjunctions)
    after = _step(before, steps)
    while after != before:
        before, after = after, _step(after, steps)
    return after


def _step(conjunctions: Conjunctions, steps: Steps) -> Conjunctions:
    steps.take(sum(map(weight, conjunctions)))
    normal: dict[Constraint, Constraint | None] = {}  # many conjunctions share a constraint
    possible = [c for c in (_canonical_conjunction(each, normal, steps) for each in conjunctions) if c is not None]
    searched = len(possible) <= SEARCHED_CONJUNCTIONS_MAX
    return _reduced(possible, partial(_covers_possible, steps=steps) if searched else _covers_cheaply, steps)


def _canonical_conjunction(
    conjunction: Conjunction, normal: dict[Constraint, Constraint | None], steps: Steps
) -> Conjunction | None:
    constraints = {}
    for name, constraint in conjunction.constraints.items():
        if constraint not in normal:
            normal[constraint] = canonical(constraint, steps)
        found = normal[constraint]
        if found is None:
            return None
        constraints[name] = found
    return Conjunction(constraints)


def _needed(ranges: Ranges, patterns: tuple[Pattern, ...], steps: Steps) -> tuple[Pattern, ...]:
    """`patterns` without those that ranges and the others imply anyway."""
    characters = sum(len(pattern.text) for pattern in patterns)
    for pattern in patterns:
        steps.take(2 * len(patterns) + characters * len(pattern.text) // COMPARED_CHARACTERS_PER_STEP)
        others = tuple(other for other in patterns if other != pattern)
        if any(other.implies(pattern) for other in others) or _imply(ranges, others, pattern, steps):
            return _needed(ranges, others, steps)
    return patterns


def _imply(ranges: Ranges, patterns: tuple[Pattern, ...], pattern: Pattern, steps: Steps) -> bool:
    """True if every string in `ranges` that fits `patterns` fits `pattern` too, and few enough are asked for."""
    if len(patterns) >= SEARCHED_PATTERNS_MAX:
        return False
    search = find_word(ranges, (*patterns, pattern._replace(negated=not pattern.negated)))
    steps.take(search.steps)
    return search.word is None and search.complete


def _covers_possible(a: Conjunction, b: Conjunction, steps: Steps) -> bool:
    """`algebra.conjunction_covers` for conjunctions of which none is known to admit nothing."""
    inner = b.constraints
    return a.constraints.keys() <= inner.keys() and all(
        constraint_covers(constraint, inner[name], steps) for name, constraint in a.constraints.items()
    )


def _covers_cheaply(a: Conjunction, b: Conjunction) -> bool:
    inner = b.constraints
    for name, constraint in a.constraints.items():
        asked = inner.get(name)
        if asked is None or not covers_syntactically(constraint, asked):
            return False
    return True


def _reduced(conjunctions: Conjunctions, covers: Covers, steps: Steps) -> Conjunctions:
    """Unite and absorb until nothing changes; sorted, so that the source order does not matter."""
    before: Conjunctions = []
    after = conjunctions
    while len(after) > 1 and after != before:
        steps.take(3 * sum(map(weight, after)))
        before = _sorted(after)
        after = _absorbed(_sorted(_united(before, steps)), covers, steps)
    return after


def _sorted(conjunctions: Conjunctions) -> Conjunctions:
    return sorted(set(conjunctions), key=spell_conjunction)


def _absorbed(conjunctions: Conjunctions, covers: Covers, steps: Steps) -> Conjunctions:
    kept: Conjunctions = []
    conditions = patterns = 0  # of all that are compared with the next one
    for candidate in conjunctions:
        own_patterns = _pattern_count(candidate)
        steps.take(3 * len(kept) + conditions // 2 + 2 * own_patterns * patterns)
        if not any(covers(other, candidate) for other in kept):
            kept = [other for other in kept if not covers(candidate, other)]
            kept.append(candidate)
            conditions += weight(candidate)
            patterns += own_patterns
    return kept


def _pattern_count(conjunction: Conjunction) -> int:
    return sum(len(constraint.patterns) for constraint in conjunction.constraints.values())


def _united(conjunctions: Conjunctions, steps: Steps) -> Conjunctions:
    counts = Counter(name for conjunction in conjunctions for name in conjunction.constraints)
    for name in sorted(name for name, count in counts.items() if count > 1):
        steps.take(len(conjunctions))
        if _differ(conjunctions, name):
            steps.take(sum(weight(conjunction) for conjunction in conjunctions if name in conjunction.constraints))
            conjunctions = _united_along(conjunctions, name)
    return conjunctions


def _differ(conjunctions: Conjunctions, name: str) -> bool:
    return len({conjunction.constraints.get(name) for conjunction in conjunctions}) > 1


def _united_along(conjunctions: Conjunctions, name: str) -> Conjunctions:
    """Unite the conjunctions that are equal but for the ranges (or the presence) of attribute `name`."""
    result: Conjunctions = []
    groups: defaultdict[tuple[tuple[str, Constraint], ...], Conjunctions] = defaultdict(list)
    for conjunction in conjunctions:
        if name in conjunction.constraints:
            rest = tuple(item for item in conjunction.constraints.items() if item[0] != name)
            groups[rest].append(conjunction)
        else:
            result.append(conjunction)
    for shared, members in groups.items():
        result += members if len(members) == 1 else _together(dict(shared), name, members)
    return result


def _together(shared: dict[str, Constraint], name: str, members: Conjunctions) -> Conjunctions:
    alternatives = _alternatives([member.constraints[name] for member in members])
    return [Conjunction({**shared, name: each}) for each in alternatives] or [Conjunction(shared)]


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
