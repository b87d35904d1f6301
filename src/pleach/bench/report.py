"""The output of a benchmark: one measurement per line, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec


class Measurement(msgspec.Struct, frozen=True):
    """`ratio` is our value over that of `against`, measured in the same run; `bar` is its lower limit."""

    bench: str
    case: str
    value: float
    unit: str
    against: str
    ratio: float
    bar: float | None
    ok: bool


class Bench(Protocol):
    def __call__(self, *, quick: bool, seed: int) -> Iterator[Measurement]: ...


def line(measurement: Measurement) -> str:
    return msgspec.json.encode(measurement).decode()
