"""The matching index: speed against a loop over all subscriptions, memory, and speed of updates.

The loop is `linear_matching.NaiveLoop`. With 16 destinations there is a loop with the shortcut of the index, which
leaves a destination at its first match: `linear_matching.GroupedLoop`, reported without a bar. Floats are new in every
event of W1 to W3; "repeated events" repeats the same 50. A loop over more than `loop_size` subscriptions is timed on
these and scaled up linearly, and `against` says so. The answers are checked against `Filter.matches`.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from random import Random
from statistics import median
from typing import Any, NamedTuple

from pleach.bench.linear_matching import GroupedLoop, NaiveLoop
from pleach.bench.measurement import Measurement, collector_paused, compare, seconds_per_item
from pleach.bench.workloads import DESTINATIONS, W1, W2, W3, W4, Workload
from pleach.core.events.filter import Filter
from pleach.core.events.index import MatchingIndex

BARS = {1_000: 10.0, 10_000: 30.0, 100_000: 70.0}  # times the loop, by subscriptions
MEMORY_LIMIT = 1024  # bytes per subscription, of the index
UPDATES_LIMIT = 15_000  # per second; an add and a remove are two
SAMPLE = 300  # events from which the loop learns selectivities


class MatchSize(NamedTuple):
    """The size of a measurement."""

    sizes: tuple[int, ...]
    other_size: int  # subscriptions in W2, W3, W4
    memory_size: int
    events: int
    loop_size: int  # subscriptions in the loop
    loop_steps: int  # subscriptions that the loop may test per round
    checks: int  # events whose answers are checked
    rounds: int
    updates: int


QUICK = MatchSize((1_000, 10_000, 100_000), 3_000, 10_000, 300, 20_000, 200_000, 2, 3, 3_000)
FULL = MatchSize((1_000, 10_000, 100_000), 20_000, 100_000, 1_000, 100_000, 1_000_000, 10, 9, 20_000)


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    yield from measure(QUICK if quick else FULL, seed)


def measure(effort: MatchSize, seed: int) -> Iterator[Measurement]:
    for size in effort.sizes:
        yield from _all_of_w1(size, effort, seed)
    for workload in (W2, W3, W4):
        yield _Bench(workload, effort.other_size, effort, seed).against_loop(1.0)
    yield from memory(effort.memory_size, seed)


def _all_of_w1(size: int, effort: MatchSize, seed: int) -> Iterator[Measurement]:
    with collector_paused():
        bench = _Bench(W1, size, effort, seed)
    yield bench.against_loop(BARS.get(size))
    if size <= effort.loop_size:
        yield bench.against_grouped_loop()
    yield bench.on_repeated_events()
    if size == max(effort.sizes):
        yield bench.updates()


class _Bench:
    """One workload at one size: the index, the loop, and the events for both."""

    def __init__(self, workload: Workload, size: int, effort: MatchSize, seed: int) -> None:
        self._case = f"{workload.name}, {size:,} subscriptions"
        self._effort = effort
        self._spare = islice(workload.filters(Random(seed + 1)), effort.updates)
        self._events = list(islice(workload.events(Random(seed + 2)), max(effort.events, SAMPLE)))
        filters = list(islice(workload.filters(Random(seed)), size))
        self._index = _filled(filters)
        in_loop = min(size, effort.loop_size)
        destinations = list(islice(cycle(DESTINATIONS), in_loop))
        self._loop = NaiveLoop(filters[:in_loop], destinations, self._events[:SAMPLE])
        self._scale = size / in_loop
        self._loop_name = "naive loop" if in_loop == size else f"naive loop ({in_loop:,} of {size:,}, scaled)"
        self._loop_events = self._events[: max(2, min(effort.events, effort.loop_steps // in_loop))]
        self._check(filters)

    def _check(self, filters: list[Filter]) -> None:
        """Check the answers."""
        for event in self._events[: self._effort.checks]:
            pairs = zip(cycle(DESTINATIONS), filters, strict=False)
            wanted = {destination for destination, filter_ in pairs if filter_.matches(event)}
            assert self._index.match(event) == wanted, f"{self._case}: {event}"
            assert self._scale > 1 or self._loop.match(event) == wanted, f"{self._case}, the loop: {event}"

    def against_loop(self, bar: float | None) -> Measurement:
        return self._matching(self._case, self._events, self._loop_name, self._loop, bar)

    def against_grouped_loop(self) -> Measurement:
        loop = GroupedLoop(self._loop)
        return self._matching(self._case, self._events, "loop by destination, first match ends it", loop, None)

    def on_repeated_events(self) -> Measurement:
        again = self._events[:50] * (len(self._events) // 50)
        return self._matching(f"{self._case}, repeated events", again, self._loop_name, self._loop, None)

    def _matching(
        self,
        case: str,
        events: list[dict[str, Any]],
        against: str,
        loop: NaiveLoop | GroupedLoop,
        bar: float | None,
    ) -> Measurement:
        rounds = self._effort.rounds
        result = compare(self._index.match, events, loop.match, self._loop_events, rounds=rounds)
        ratio = result.ratio * self._scale
        ok = bar is None or ratio >= bar
        return Measurement("match", case, 1 / result.seconds, "events/s", against, ratio, bar, ok)

    def updates(self) -> Measurement:
        """Replace subscriptions by new ones: one remove and one add each. The median over rounds."""
        numbered = list(enumerate(self._spare))
        batch = max(1, len(numbered) // self._effort.rounds)
        gc.collect()
        each = median(
            seconds_per_item(self._replace, numbered[start : start + batch])
            for start in range(0, len(numbered) - batch + 1, batch)
        )
        rate = 2 / each
        ratio = rate / UPDATES_LIMIT
        case, limit = f"{self._case}, updates", f"limit of {UPDATES_LIMIT:,}/s"
        return Measurement("match", case, rate, "updates/s", limit, ratio, 1.0, ratio >= 1.0)

    def _replace(self, numbered: tuple[int, Filter]) -> None:
        key, wanted = numbered
        self._index.remove(key)
        self._index.add(("new", key), wanted, DESTINATIONS[key % len(DESTINATIONS)])


def memory(size: int, seed: int) -> Iterator[Measurement]:
    """Bytes per subscription, of the index alone and with the filters; the ratio is to stay below the bar."""
    filters = list(islice(W1.filters(Random(seed)), size))
    index = _traced_bytes(lambda: _filled(filters)) / size
    weighed = size // 10
    both = index + _traced_bytes(lambda: list(islice(W1.filters(Random(seed)), weighed))) / weighed
    for what, each, bar in (("index", index, 1.0), ("index and filters", both, None)):
        ratio = each / MEMORY_LIMIT
        case = f"W1, {size:,} subscriptions, memory of {what}"
        ok = bar is None or ratio <= bar
        limit = f"limit of {MEMORY_LIMIT:,} bytes"
        yield Measurement("match", case, each, "bytes/subscription", limit, ratio, bar, ok)


def _traced_bytes(make: Callable[[], object]) -> int:
    """The memory of the object that `make` returns, with all that it references."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return used


def _filled(filters: list[Filter]) -> MatchingIndex:
    index = MatchingIndex()
    for key, wanted in enumerate(filters):
        index.add(key, wanted, DESTINATIONS[key % len(DESTINATIONS)])
    return index
