"""The syntax tree of a filter's text: made by `language.py`, turned into a filter by `normalise.py`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, Union

from pleach.core.events.constraint import Constraint


class Constant(NamedTuple):
    value: bool


class Predicate(NamedTuple):
    """One comparison of one attribute."""

    attribute: str
    constraint: Constraint


class Not(NamedTuple):
    part: Expression


class And(NamedTuple):
    parts: tuple[Expression, ...]


class Or(NamedTuple):
    parts: tuple[Expression, ...]


Expression: TypeAlias = Union[Constant, Predicate, Not, And, Or]  # noqa: UP007 the classes above refer to it
