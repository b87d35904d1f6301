"""The vocabulary of scenario files: the values that keys may have.

Aliases such as `Seconds` and `FilterText` are plain floats and strings to the rest of the code; `read.py` chooses the
reader of a key by them.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Name: TypeAlias = Annotated[str, "the name of a node"]
Names: TypeAlias = Annotated[tuple[str, ...], "names of nodes"]
Link: TypeAlias = Annotated[tuple[str, str], "two nodes"]
Triple: TypeAlias = Annotated[tuple[str, str, str], "three nodes"]
Links: TypeAlias = Annotated[tuple[tuple[str, str], ...], "pairs of nodes"]
Sides: TypeAlias = Annotated[tuple[tuple[str, ...], ...], "lists of names that have nothing in common"]

FilterText: TypeAlias = Annotated[str, "a filter that parses"]
FilterTexts: TypeAlias = Annotated[tuple[str, ...], "filters that parse"]

Seconds: TypeAlias = Annotated[float, "seconds, 0 or more"]
PositiveSeconds: TypeAlias = Annotated[float, "seconds, more than 0"]
Fraction: TypeAlias = Annotated[float, "0 to 1"]
Count: TypeAlias = Annotated[int, "1 or more"]
Variant: TypeAlias = Annotated[int, "1 or 2"]
Copies: TypeAlias = Annotated[int, "2 or 3"]
Bytes: TypeAlias = Annotated[int, "0 to the size of an event"]


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A time drawn uniformly from low to high, in seconds. A constant has both ends equal."""

    low: float
    high: float


PositiveSpan: TypeAlias = Annotated[Span, "more than 0 s"]


class Uniform(msgspec.Struct, frozen=True, tag_field="generator", tag="uniform"):
    """Drawn uniformly, both ends included: an integer where both ends are integers, else a float."""

    low: int | float
    high: int | float


class Choice(msgspec.Struct, frozen=True, tag_field="generator", tag="choice"):
    """Drawn from a list, each value with the same probability."""

    values: tuple[str | int | float | bool, ...]


class Sequence(msgspec.Struct, frozen=True, tag_field="generator", tag="sequence"):
    """1, 2, 3, …: the number of the event within its `publish` or `reply`."""


Constant: TypeAlias = str | int | float | bool
Constants: TypeAlias = Annotated[dict[str, Constant], "attributes of one event"]
Attribute: TypeAlias = Constant | Uniform | Choice | Sequence
Attributes: TypeAlias = Annotated[dict[str, Attribute], "attributes, constant or generated"]
