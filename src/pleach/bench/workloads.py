"""The workloads of the benchmarks of the indexes.

All have 20 attributes: ten strings `s0`..`s9` (900 values, Zipf 1.0), five integers `i0`..`i4` in 0..999 and five
floats `f0`..`f4` in [0, 999); W4 has twenty integers instead. A subscription constrains 5 of them.

    W1  strings `=`; numbers 70% one bound, 30% an interval of 0.2 to 0.8 of the domain; events carry all 20
    W2  as W1; events carry 10 of the 20
    W3  as W1; strings 50% =, 10% each <>, prefix, suffix, contains, 5% each IN, EXISTS
    W4  intervals only, no equality
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

from pleach.core.events.constraint import ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import AFTER, BEFORE, Ranges, above, below, complement, union

STRINGS = tuple(f"s{i}" for i in range(10))
INTEGERS = tuple(f"i{i}" for i in range(5))
FLOATS = tuple(f"f{i}" for i in range(5))
WORDS = 900
DOMAIN = 999  # numbers lie in 0..DOMAIN
DESTINATIONS = tuple(f"d{i:02}" for i in range(16))
CONSTRAINTS_PER_SUBSCRIPTION = 5

_CUMULATED = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))


@dataclass(frozen=True)
class Workload:
    name: str
    attributes: tuple[str, ...]
    attributes_per_event: int
    string_constraint: Callable[[Random], Constraint]
    number_constraint: Callable[[Random, str], Constraint]

    def filters(self, random: Random) -> Iterator[Filter]:
        while True:
            names = random.sample(self.attributes, CONSTRAINTS_PER_SUBSCRIPTION)
            yield Filter([Conjunction({name: self._constraint(random, name) for name in names})])

    def events(self, random: Random) -> Iterator[dict[str, Any]]:
        while True:
            names = random.sample(self.attributes, self.attributes_per_event)
            yield {name: _value(random, name) for name in names}

    def _constraint(self, random: Random, name: str) -> Constraint:
        return self.string_constraint(random) if name in STRINGS else self.number_constraint(random, name)


def word(random: Random) -> str:
    """Zipf-distributed; spelled so that prefixes, suffixes and infixes select something."""
    rank = bisect_left(_CUMULATED, random.random() * _CUMULATED[-1])
    return f"{rank * 7919 % WORDS:03}-{rank:03}"


def _value(random: Random, name: str) -> Any:
    if name in STRINGS:
        return word(random)
    return random.random() * DOMAIN if name in FLOATS else random.randint(0, DOMAIN)


def _equality(random: Random) -> Constraint:
    return Constraint(TypeConstraint.STRING, _equal(word(random)))


def _string_operator(random: Random) -> Constraint:
    operators = ("=", "<>", "prefix", "suffix", "contains", "in", "exists")
    text = word(random)
    match random.choices(operators, weights=(50, 10, 10, 10, 10, 5, 5))[0]:
        case "=":
            return Constraint(TypeConstraint.STRING, _equal(text))
        case "<>":
            return Constraint(TypeConstraint.STRING, complement(_equal(text)))
        case "prefix":
            return Constraint(TypeConstraint.STRING, _from_to(text[:2], text[0] + chr(ord(text[1]) + 1)))
        case "suffix":
            return Constraint(TypeConstraint.STRING, patterns=(Pattern(PatternShape.SUFFIX, text[-2:]),))
        case "contains":
            return Constraint(TypeConstraint.STRING, patterns=(Pattern(PatternShape.CONTAINS, text[2:5]),))
        case "in":
            return Constraint(
                TypeConstraint.STRING, union(_equal(text), union(_equal(word(random)), _equal(word(random))))
            )
        case _:
            return ANY


def _bound_or_interval(random: Random, name: str) -> Constraint:
    if random.random() < 0.3:
        return _interval(random, name)
    bound = above if random.random() < 0.5 else below
    return Constraint(TypeConstraint.NUMBER, bound(_value(random, name), inclusive=random.random() < 0.5))


def _interval(random: Random, name: str) -> Constraint:
    width = random.uniform(0.2, 0.8) * DOMAIN
    low = random.random() * (DOMAIN - width)
    if name in FLOATS:
        return Constraint(TypeConstraint.NUMBER, _from_to(low, low + width))
    return Constraint(TypeConstraint.NUMBER, _from_to(int(low), int(low + width)))


def _from_to(low: Any, high: Any) -> Ranges:
    """low <= x < high, written down directly: workloads are large."""
    return Ranges(inside_first=False, cuts=((low, BEFORE), (high, BEFORE)))


def _equal(value: Any) -> Ranges:
    return Ranges(inside_first=False, cuts=((value, BEFORE), (value, AFTER)))


_MIXED = STRINGS + INTEGERS + FLOATS
_NUMBERED = tuple(f"i{i}" for i in range(20))

W1 = Workload("W1", _MIXED, 20, _equality, _bound_or_interval)
W2 = Workload("W2", _MIXED, 10, _equality, _bound_or_interval)
W3 = Workload("W3", _MIXED, 20, _string_operator, _bound_or_interval)
W4 = Workload("W4", _NUMBERED, 20, _equality, _interval)
