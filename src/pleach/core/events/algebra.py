"""Relations between filters: covers, overlaps.

`covers(a, b)`: every event that b matches is matched by a. Always sound: True is never claimed wrongly.
Complete for conjunctions: attributes are independent of each other, so a covers b exactly if each constraint
of a holds every value that b admits for its attribute (or b admits nothing at all). For disjunctions it is
complete where each conjunction of b lies within one of a's, or within several along one attribute.

`overlaps(a, b)`: some event is matched by both. Exact, hence monotone: what overlaps f overlaps all that
covers f. An attribute that only one side constrains prevents nothing: an event may carry more attributes.

Both are exact within their bounds: one for each search behind patterns (see `text_automaton.py`), one for all steps of
a comparison (`budget.py`). It takes deliberately entangled patterns, or two filters of dozens of conjunctions, to
exceed them; beyond them `covers` says no and `overlaps` says yes: the safe sides.
"""

from __future__ import annotations

from pleach.core.events.budget import Steps
from pleach.core.events.constraint import Conjunction, Constraint, Pattern, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import Ranges, complement, disjoint, includes, intersection, union_of
from pleach.core.events.text_automaton import find_word


def covers(a: Filter, b: Filter) -> bool:
    if a is b:
        return True
    steps = Steps()
    if len(a.conjunctions) == 1:
        (outer,) = a.conjunctions
        return all(conjunction_covers(outer, inner, steps) for inner in b.conjunctions)
    return all(_disjunction_covers(a.conjunctions, inner, steps) for inner in b.conjunctions)


def overlaps(a: Filter, b: Filter) -> bool:
    if len(a.conjunctions) > 1 and len(b.conjunctions) > 1 and b < a:
        a, b = b, a  # the order in which the steps are spent, so that the answer is the same in both directions
    steps = Steps()
    return any(conjunctions_overlap(x, y, steps) for x in a.conjunctions for y in b.conjunctions)


def conjunction_covers(a: Conjunction, b: Conjunction, steps: Steps | None = None) -> bool:
    steps = steps or Steps()
    inner = b.constraints
    for name, constraint in a.constraints.items():
        asked = inner.get(name)
        if asked is None or not constraint_covers(constraint, asked, steps):
            return not is_satisfiable(b)
    return True


def conjunctions_overlap(a: Conjunction, b: Conjunction, steps: Steps | None = None) -> bool:
    steps = steps or Steps()
    other = b.constraints
    for name, constraint in a.constraints.items():
        asked = other.get(name)
        if asked is not None and not constraints_overlap(constraint, asked, steps):
            return False
    return is_satisfiable(a) and is_satisfiable(b)


def is_satisfiable(conjunction: Conjunction) -> bool:
    """Independent of what it is compared with, hence with steps of its own."""
    if conjunction.is_satisfiable is None:
        steps = Steps()
        conjunction.is_satisfiable = all(admits_something(c, steps) for c in conjunction.constraints.values())
    return conjunction.is_satisfiable


def constraint_covers(a: Constraint, b: Constraint, steps: Steps | None = None) -> bool:
    """True if a admits every value that b admits."""
    steps = steps or Steps()
    if not steps.take(1 + len(a.patterns) * len(b.patterns)):
        return False
    if covers_syntactically(a, b):
        return True
    if not a.patterns and not b.patterns:
        return not admits_something(b, steps)
    if not admits_something(b, steps):
        return True
    return a.kind is b.kind and all(_is_impossible(*conditions, steps) for conditions in separations(a, b))


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


def constraints_overlap(a: Constraint, b: Constraint, steps: Steps | None = None) -> bool:
    """True if some value is admitted by both; a missing attribute counts as a value."""
    steps = steps or Steps()
    if not steps.take(1):
        return True
    if a.kind is not b.kind:
        one_is_any = TypeConstraint.ANY in (a.kind, b.kind) and TypeConstraint.ABSENT not in (a.kind, b.kind)
        return one_is_any and admits_something(a, steps) and admits_something(b, steps)
    if a.patterns or b.patterns or a.kind is TypeConstraint.BOOLEAN:
        return admits_something(intersect(a, b), steps)
    return not disjoint(a.ranges, b.ranges)


def intersect(a: Constraint, b: Constraint) -> Constraint:
    """The values that two constraints of one kind both admit, not in normal form."""
    patterns = a.patterns if a.patterns == b.patterns else tuple(sorted({*a.patterns, *b.patterns}))
    return Constraint(a.kind, intersection(a.ranges, b.ranges), patterns)


def admits_something(constraint: Constraint, steps: Steps | None = None) -> bool:
    if constraint.patterns:
        return not _is_impossible(constraint.ranges, constraint.patterns, steps or Steps())
    if constraint.kind is TypeConstraint.BOOLEAN:
        return bool(constraint.points())
    return not constraint.ranges.is_empty


def _ranges_include(a: Constraint, b: Constraint) -> bool:
    if a.kind is TypeConstraint.BOOLEAN:
        return all(value in a.ranges for value in b.points() or ())
    return includes(a.ranges, b.ranges)


def _is_impossible(ranges: Ranges, patterns: tuple[Pattern, ...], steps: Steps) -> bool:
    """True if it is certain that no string lies in `ranges` and fits all patterns."""
    if not steps.take(1):
        return False
    search = find_word(ranges, patterns)
    steps.take(search.steps)
    return search.word is None and search.complete


def _disjunction_covers(conjunctions: tuple[Conjunction, ...], inner: Conjunction, steps: Steps) -> bool:
    """True if one conjunction covers `inner`, or if some cover it together: all but the ranges of one attribute each,
    which is the same for all of them, and these united.
    """
    parts: dict[str, list[Ranges]] = {}
    for outer in conjunctions:
        failing = _failing(outer, inner, steps)
        if not failing:
            return True
        if len(failing) == 1 and _is_part(outer, inner, failing[0]):
            parts.setdefault(failing[0], []).append(outer.constraints[failing[0]].ranges)
    return any(_cover_along(inner.constraints[name], found, steps) for name, found in parts.items()) or (
        not is_satisfiable(inner)
    )


def _failing(outer: Conjunction, inner: Conjunction, steps: Steps) -> list[str]:
    """The attributes for which `outer` does not cover `inner`, the first two of them."""
    failing: list[str] = []
    for name, constraint in outer.constraints.items():
        asked = inner.constraints.get(name)
        if asked is None or not constraint_covers(constraint, asked, steps):
            failing.append(name)
            if len(failing) == 2:
                break
    return failing


def _is_part(outer: Conjunction, inner: Conjunction, name: str) -> bool:
    """Whether the ranges of `outer` may cover a part of what `inner` admits for attribute `name`."""
    wanted, found = inner.constraints.get(name), outer.constraints[name]
    return wanted is not None and found.kind is wanted.kind and not found.patterns


def _cover_along(wanted: Constraint, parts: list[Ranges], steps: Steps) -> bool:
    return constraint_covers(Constraint(wanted.kind, union_of(parts)), wanted, steps)
