"""Constraints and conjunctions, the parts of a filter in normal form (`filter.py`).

Meaning (every index, policy and engine must agree with `Filter.matches`):
- A missing attribute satisfies no constraint but ABSENT (`NOT EXISTS`).
- Integers and floats are one kind, NUMBER, and compare by value. A value of another kind than the
  constraint's satisfies nothing, so `x <> 5` is false for x = 'five', and `NOT (x = 5)` means `x <> 5`.
- Booleans are not numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from pleach.core.events.ranges import EVERYTHING, Ranges


class TypeConstraint(IntEnum):
    """The type that a constraint requires."""

    ABSENT = 0  # the attribute must be missing
    ANY = 1  # it must be present, of any type
    NUMBER = 2
    STRING = 3
    BOOLEAN = 4
    BYTES = 5


KIND_OF = {
    int: TypeConstraint.NUMBER,
    float: TypeConstraint.NUMBER,
    str: TypeConstraint.STRING,
    bool: TypeConstraint.BOOLEAN,
    bytes: TypeConstraint.BYTES,
}


class PatternShape(IntEnum):
    """The shape of a LIKE pattern. A prefix is not a pattern: `LIKE 'ab%'` is the range ['ab', 'ac')."""

    SUFFIX = 0
    CONTAINS = 1


class Pattern(NamedTuple):
    shape: PatternShape
    text: str
    negated: bool = False

    def matches(self, value: str) -> bool:
        found = value.endswith(self.text) if self.shape is PatternShape.SUFFIX else self.text in value
        return found != self.negated

    def implies(self, other: Pattern) -> bool:
        """True if every string that fits this fits `other`, as far as comparing the two texts shows."""
        match self.negated, other.negated:
            case False, False:
                return self.finds(other)
            case True, True:
                return other.finds(self)
            case False, True:  # a string does not end on two texts, unless one ends on the other
                both_suffixes = self.shape is PatternShape.SUFFIX and other.shape is PatternShape.SUFFIX
                return both_suffixes and not self.text.endswith(other.text) and not other.text.endswith(self.text)
            case _:
                return False

    def finds(self, other: Pattern) -> bool:
        """True if a string with this text in its place has the other's text in its place, negated or not."""
        if other.shape is PatternShape.CONTAINS:
            return other.text in self.text
        return self.shape is PatternShape.SUFFIX and self.text.endswith(other.text)


class Constraint(NamedTuple):
    """The values one attribute may take: of one kind, within ranges, and (strings) fitting all patterns."""

    kind: TypeConstraint
    ranges: Ranges = EVERYTHING
    patterns: tuple[Pattern, ...] = ()  # sorted, only for Kind.STRING

    def admits(self, value: Any) -> bool:
        """`value` is the attribute's value, None where it is missing."""
        if value is None:
            return self.kind is TypeConstraint.ABSENT
        if self.kind is TypeConstraint.ANY:
            return True
        if KIND_OF[value.__class__] is not self.kind or value not in self.ranges:
            return False
        return all(pattern.matches(value) for pattern in self.patterns)

    def points(self) -> tuple[Any, ...] | None:
        """The admitted values where they are finitely many and listed (`=`, `IN`), else None."""
        if self.kind is TypeConstraint.BOOLEAN:
            return tuple(value for value in (False, True) if value in self.ranges)
        return self.ranges.points() if self.kind >= TypeConstraint.NUMBER and not self.patterns else None


ABSENT = Constraint(TypeConstraint.ABSENT)
ANY = Constraint(TypeConstraint.ANY)


class Conjunction:
    """One constraint per attribute, all of which must hold. An empty one matches every event."""

    __slots__ = ("_hash", "constraints", "is_satisfiable")

    def __init__(self, constraints: Mapping[str, Constraint]) -> None:
        self.constraints: dict[str, Constraint] = dict(sorted(constraints.items()))
        self._hash = hash(tuple(self.constraints.items()))
        self.is_satisfiable: bool | None = None  # kept here by `algebra.is_satisfiable`, for as long as this lives

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        get = attributes.get
        for name, constraint in self.constraints.items():  # noqa: SIM110 - `all` takes half as long again
            if not constraint.admits(get(name)):
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conjunction) and self.constraints == other.constraints

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Conjunction({self.constraints!r})"
