"""Random filters and events over domains so small that matches, covers and overlaps are frequent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pleach.core.events.constraint import ABSENT, ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import EVERYTHING, Ranges, above, below, complement, intersection, point, union

NAMES = ("a", "b", "c", "d")
VALUES: dict[TypeConstraint, tuple[Any, ...]] = {
    TypeConstraint.NUMBER: (-1, 0, 1, 1.0, 2, 2.5, 5.0, 2**53, 2**53 + 1),
    TypeConstraint.STRING: ("", "a", "a\0", "aa", "ab", "b", "ba", "bab"),
    TypeConstraint.BOOLEAN: (False, True),
    TypeConstraint.BYTES: (b"", b"a", b"a\0", b"ab", b"b"),
}
TEXTS = ("a", "b", "ab", "ba")
Draw = Callable[[Random], Filter]


def random_value(random: Random) -> Any:
    return random.choice(VALUES[random.choice(list(VALUES))])


def random_event(random: Random) -> dict[str, Any]:
    return {name: random_value(random) for name in NAMES if random.random() < 0.8}


def random_filter(random: Random) -> Filter:
    return Filter([random_conjunction(random) for _ in range(random.choice((1, 1, 1, 2, 3)))])


def random_conjunction(random: Random) -> Conjunction:
    names = random.sample(NAMES, random.choice((0, 1, 1, 2, 2, 3, 4)))
    return Conjunction({name: random_constraint(random) for name in names})


def random_constraint(random: Random) -> Constraint:
    kind = random.choice(list(TypeConstraint))
    match kind:
        case TypeConstraint.ABSENT:
            return ABSENT
        case TypeConstraint.ANY:
            return ANY
        case TypeConstraint.STRING:
            return Constraint(kind, random_ranges(random, kind), random_patterns(random))
        case TypeConstraint.BOOLEAN:  # as the language writes them: by their points
            chosen = [point(value) for value in VALUES[kind] if random.random() < 0.6] or [point(True)]
            return Constraint(kind, chosen[0] if len(chosen) == 1 else union(*chosen))
        case _:
            return Constraint(kind, random_ranges(random, kind))


def random_ranges(random: Random, kind: TypeConstraint) -> Ranges:
    """One to five points, a bound, an interval, a hole, everything or a union; sometimes nothing at all."""
    values = VALUES[kind]
    some = random.choice(values)
    match random.randrange(8):
        case 0 | 1 | 2:
            return point(some)
        case 3:
            return below(some, inclusive=random.random() < 0.5)
        case 4:
            return above(some, inclusive=random.random() < 0.5)
        case 5:
            ranges = point(some)
            for _ in range(random.randrange(5)):
                ranges = union(ranges, point(random.choice(values)))
            return ranges
        case 6:
            bounds = (
                above(some, inclusive=True),
                below(random.choice(values), inclusive=random.random() < 0.5),
            )
            return intersection(*bounds) if random.random() < 0.5 else union(*bounds)
        case _:
            return complement(point(some)) if random.random() < 0.7 else EVERYTHING


def random_patterns(random: Random) -> tuple[Pattern, ...]:
    count = random.choice((0, 0, 0, 1, 2))
    drawn = {
        Pattern(random.choice(list(PatternShape)), random.choice(TEXTS), random.random() < 0.3) for _ in range(count)
    }
    return tuple(sorted(drawn))
