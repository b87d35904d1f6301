"""The canonical text of a filter; `language.parse_internal` reads it back as an equal filter.

One constraint is spelled as the parts that must hold together (ranges first, then patterns), so that a
conjunction is a flat chain of ANDs. Ranges are spelled, in this order of preference:

    x = 5      x IN (1, 2)                      finitely many values
    x > 50     x BETWEEN 1 AND 5     s LIKE 'ab%'      one interval
    x <> 5     x > 0 AND x NOT IN (1, 2)        one interval with finitely many values left out
    (x < 1 OR x = 3 OR x > 5)                   anything else
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pleach.core.events.constraint import Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.ranges import AFTER, BEFORE, Interval, Ranges, complement, interval_prefix

KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "EXISTS", "IS", "NULL", "TRUE", "FALSE")
)  # reserved whatever their case: an attribute of such a name is written in double quotes

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def spell(conjunctions: Iterable[Conjunction]) -> str:
    return " OR ".join(map(spell_conjunction, conjunctions)) or "FALSE"


def spell_conjunction(conjunction: Conjunction) -> str:
    parts = [
        part
        for name, constraint in conjunction.constraints.items()
        for part in _constraint_parts(spell_name(name), constraint)
    ]
    return " AND ".join(parts) or "TRUE"


def spell_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def spell_value(value: Any) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case _:
            return repr(value)


def _constraint_parts(name: str, constraint: Constraint) -> Iterator[str]:
    match constraint.kind:
        case TypeConstraint.ABSENT:
            yield f"NOT EXISTS {name}"
        case TypeConstraint.ANY:
            yield f"EXISTS {name}"
        case _ if not constraint.ranges.is_everything:
            yield from _range_parts(name, constraint.ranges)
        case _ if not constraint.patterns:
            yield _whole_kind(name, constraint.kind)
    for pattern in constraint.patterns:
        yield _like(name, pattern)


def _whole_kind(name: str, kind: TypeConstraint) -> str:
    """Every value of one kind: no predicate expresses that, so a predicate is used that all of them satisfy."""
    match kind:
        case TypeConstraint.STRING:
            return f"{name} LIKE '%'"
        case TypeConstraint.BYTES:
            return f"{name} >= X''"
        case TypeConstraint.BOOLEAN:
            return f"{name} IN (FALSE, TRUE)"
        case _:
            return f"({name} < 0 OR {name} >= 0)"


def _range_parts(name: str, ranges: Ranges) -> Iterator[str]:
    if ranges.is_empty:
        yield "FALSE"
        return
    values = ranges.points()
    if values is not None:
        yield _one_of(name, values)
        return
    intervals = list(ranges.intervals())
    low, high = intervals[0][0], intervals[-1][1]
    holes = _holes(ranges, low_open=low is None, high_open=high is None)
    if holes is None:
        yield "(" + " OR ".join(_alternatives(name, intervals)) + ")"
        return
    if low is not None or high is not None:
        yield _interval(name, (low, high))
    if holes:
        yield _none_of(name, holes)


def _holes(ranges: Ranges, *, low_open: bool, high_open: bool) -> tuple[Any, ...] | None:
    """The values left out between the ends of `ranges`, or None where more than single values are."""
    inner = ranges.cuts[0 if low_open else 1 : None if high_open else -1]
    return complement(Ranges(inside_first=True, cuts=inner)).points()


def _alternatives(name: str, intervals: Iterable[Interval]) -> Iterator[str]:
    """The intervals of a union one by one, its single values gathered into one list at the end."""
    values: list[Any] = []
    for low, high in intervals:
        alone = Ranges(inside_first=low is None, cuts=tuple(c for c in (low, high) if c is not None)).points()
        if alone is not None:
            values.extend(alone)
        else:
            yield _interval(name, (low, high))
    if values:
        yield _one_of(name, tuple(values))


def _one_of(name: str, values: tuple[Any, ...]) -> str:
    if len(values) == 1:
        return f"{name} = {spell_value(values[0])}"
    return f"{name} IN ({', '.join(map(spell_value, values))})"


def _none_of(name: str, values: tuple[Any, ...]) -> str:
    if len(values) == 1:
        return f"{name} <> {spell_value(values[0])}"
    return f"{name} NOT IN ({', '.join(map(spell_value, values))})"


def _interval(name: str, interval: Interval) -> str:
    low, high = interval
    prefix = interval_prefix(low, high)
    if prefix is not None:
        return f"{name} LIKE '{_escaped(prefix)}%'"
    if low is not None and high is not None and low[1] == BEFORE and high[1] == AFTER:
        return f"{name} BETWEEN {spell_value(low[0])} AND {spell_value(high[0])}"
    parts = []
    if low is not None:
        parts.append(f"{name} {'>=' if low[1] == BEFORE else '>'} {spell_value(low[0])}")
    if high is not None:
        parts.append(f"{name} {'<=' if high[1] == AFTER else '<'} {spell_value(high[0])}")
    return " AND ".join(parts)


def _like(name: str, pattern: Pattern) -> str:
    tail = "" if pattern.shape is PatternShape.SUFFIX else "%"
    return f"{name} {'NOT ' if pattern.negated else ''}LIKE '%{_escaped(pattern.text)}{tail}'"


def _escaped(text: str) -> str:
    """`text` as it stands in a LIKE pattern within quotes."""
    plain = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return plain.replace("'", "''")
