"""Measurements of a benchmark as JSON lines, and timing of two functions in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import NamedTuple, Protocol, TypeVar

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


T = TypeVar("T")


class Comparison(NamedTuple):
    seconds: float  # ours, per item
    ratio: float  # how many times faster than theirs


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without garbage collection, for the preparation of large workloads, which is not measured."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds_per_item(work: Callable[[T], object], items: Iterable[T]) -> float:
    items = list(items)
    start = perf_counter()
    for item in items:
        work(item)
    return (perf_counter() - start) / len(items)


def compare(
    ours: Callable[[T], object],
    our_items: list[T],
    theirs: Callable[[T], object],
    their_items: list[T],
    *,
    rounds: int,
) -> Comparison:
    """The medians over rounds in which both run, one after the other."""
    gc.collect()
    pairs = [(seconds_per_item(ours, our_items), seconds_per_item(theirs, their_items)) for _ in range(rounds)]
    return Comparison(median(mine for mine, _ in pairs), median(other / mine for mine, other in pairs))
