"""Relations between filters: covers, overlaps.

`covers(a, b)`: every event that b matches is matched by a. Always sound: True is never claimed wrongly.
Complete for conjunctions: attributes are independent of each other, so a covers b exactly if each constraint
of a holds every value that b admits for its attribute (or b admits nothing at all). For disjunctions it is
complete where each conjunction of b lies within one of a's, or within several along one attribute.

`overlaps(a, b)`: some event is matched by both. Exact, hence monotone: what overlaps f overlaps all that
covers f. An attribute that only one side constrains prevents nothing: an event may carry more attributes.

Both are exact as long as the search behind patterns (see `text_automaton.py`) ends within its bound, which it
takes deliberately entangled patterns to exceed; beyond it `covers` says no and `overlaps` says yes: the safe
sides.
"""

from __future__ import annotations

from functools import lru_cache

from pleach.core.events.constraint import Conjunction, Constraint, Pattern, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import Ranges, complement, disjoint, includes, intersection, union_of
from pleach.core.events.text_automaton import find_word

CONJUNCTIONS_REMEMBERED = 65_536


def covers(a: Filter, b: Filter) -> bool:
    if a is b:
        return True
    if len(a.conjunctions) == 1:
        (outer,) = a.conjunctions
        return all(conjunction_covers(outer, inner) for inner in b.conjunctions)
    return all(_disjunction_covers(a.conjunctions, inner) for inner in b.conjunctions)


def overlaps(a: Filter, b: Filter) -> bool:
    return any(conjunctions_overlap(x, y) for x in a.conjunctions for y in b.conjunctions)


def conjunction_covers(a: Conjunction, b: Conjunction) -> bool:
    inner = b.constraints
    for name, constraint in a.constraints.items():
        asked = inner.get(name)
        if asked is None or not constraint_covers(constraint, asked):
            return not is_satisfiable(b)
    return True


def conjunctions_overlap(a: Conjunction, b: Conjunction) -> bool:
    other = b.constraints
    for name, constraint in a.constraints.items():
        asked = other.get(name)
        if asked is not None and not constraints_overlap(constraint, asked):
            return False
    return is_satisfiable(a) and is_satisfiable(b)


@lru_cache(maxsize=CONJUNCTIONS_REMEMBERED)
def is_satisfiable(conjunction: Conjunction) -> bool:
    return all(map(admits_something, conjunction.constraints.values()))


def constraint_covers(a: Constraint, b: Constraint) -> bool:
    """True if a admits every value that b admits."""
    if covers_syntactically(a, b):
        return True
    if not a.patterns and not b.patterns:
        return not admits_something(b)
    if not admits_something(b):
        return True
    return a.kind is b.kind and all(_is_impossible(*conditions) for conditions in separations(a, b))


def covers_syntactically(a: Constraint, b: Constraint) -> bool:
    """The cheap half of `constraint_covers`: part by part, missing what only the parts together imply."""
    if a.kind is TypeConstraint.ANY:
        return b.kind is not TypeConstraint.ABSENT
    if a.kind is not b.kind:
        return False
    return _ranges_include(a, b) and all(any(q.implies(p) for q in b.patterns) for p in a.patterns)


def separations(a: Constraint, b: Constraint) -> list[tuple[Ranges, tuple[Pattern, ...]]]:
    """The ways in which a string that b admits may fail a: outside its ranges, or against one pattern."""
    outside = (intersection(b.ranges, complement(a.ranges)), b.patterns)
    against = [(b.ranges, (*b.patterns, p._replace(negated=not p.negated))) for p in a.patterns]
    return [outside, *against]


def constraints_overlap(a: Constraint, b: Constraint) -> bool:
    """True if some value is admitted by both; a missing attribute counts as a value."""
    if a.kind is not b.kind:
        one_is_any = TypeConstraint.ANY in (a.kind, b.kind) and TypeConstraint.ABSENT not in (a.kind, b.kind)
        return one_is_any and admits_something(a) and admits_something(b)
    if a.patterns or b.patterns or a.kind is TypeConstraint.BOOLEAN:
        return admits_something(intersect(a, b))
    return not disjoint(a.ranges, b.ranges)


def intersect(a: Constraint, b: Constraint) -> Constraint:
    """The values that two constraints of one kind both admit, not in normal form."""
    patterns = a.patterns if a.patterns == b.patterns else tuple(sorted({*a.patterns, *b.patterns}))
    return Constraint(a.kind, intersection(a.ranges, b.ranges), patterns)


def admits_something(constraint: Constraint) -> bool:
    if constraint.patterns:
        return not _is_impossible(constraint.ranges, constraint.patterns)
    if constraint.kind is TypeConstraint.BOOLEAN:
        return bool(constraint.points())
    return not constraint.ranges.is_empty


def _ranges_include(a: Constraint, b: Constraint) -> bool:
    if a.kind is TypeConstraint.BOOLEAN:
        return all(value in a.ranges for value in b.points() or ())
    return includes(a.ranges, b.ranges)


def _is_impossible(ranges: Ranges, patterns: tuple[Pattern, ...]) -> bool:
    """True if it is certain that no string lies in `ranges` and fits all patterns."""
    search = find_word(ranges, patterns)
    return search.word is None and search.complete


def _disjunction_covers(conjunctions: tuple[Conjunction, ...], inner: Conjunction) -> bool:
    if any(conjunction_covers(outer, inner) for outer in conjunctions):
        return True
    if any(_cover_along(name, conjunctions, inner) for name in inner.constraints):
        return True
    return not is_satisfiable(inner)


def _cover_along(name: str, conjunctions: tuple[Conjunction, ...], inner: Conjunction) -> bool:
    """True if the conjunctions that cover `inner` but for attribute `name` cover it with united ranges."""
    wanted = inner.constraints[name]
    parts = [
        outer.constraints[name].ranges
        for outer in conjunctions
        if (found := outer.constraints.get(name)) is not None
        and found.kind is wanted.kind
        and not found.patterns
        and _covers_but_for(name, outer, inner)
    ]
    return bool(parts) and constraint_covers(Constraint(wanted.kind, union_of(parts)), wanted)


def _covers_but_for(name: str, outer: Conjunction, inner: Conjunction) -> bool:
    return all(
        other in inner.constraints and constraint_covers(constraint, inner.constraints[other])
        for other, constraint in outer.constraints.items()
        if other != name
    )
