"""The matching index: speed against a loop over all subscriptions, memory, and speed of updates.

The loop is `NaiveLoop`. With 16 destinations there is a loop with the shortcut of the index, which
leaves a destination at its first match: `GroupedLoop`, reported without a bar. Floats are new in every
event of W1 to W3; "repeated events" repeats the same 50. A loop over more than `loop_size` subscriptions is timed on
these and scaled up linearly, and `against` says so. The answers are checked against `Filter.matches`.
"""

from __future__ import annotations

import gc
import operator
import tracemalloc
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from random import Random
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from pleach.bench.measurement import Measurement, collector_paused, compare, seconds_per_item
from pleach.bench.workloads import DESTINATIONS, W1, W2, W3, W4, Workload
from pleach.core.events.constraint import Constraint
from pleach.core.events.filter import Filter
from pleach.core.events.index import MatchingIndex
from pleach.core.events.ranges import AFTER, BEFORE, Cut

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


Test: TypeAlias = Callable[[Any], bool]
Subscription: TypeAlias = tuple[str, tuple[tuple[str, Test], ...]]  # destination, tests by attribute


# The reference: a loop over all subscriptions, most selective predicate first -----------------------------------------


class NaiveLoop:
    """Predicates are closures or C callables, and the first that fails ends a subscription."""

    def __init__(
        self, filters: Sequence[Filter], destinations: Sequence[str], sample: Iterable[Mapping[str, Any]]
    ) -> None:
        seen = _values_by_attribute(sample)
        self._subscriptions: list[Subscription] = []
        for filter_, destination in zip(filters, destinations, strict=True):
            for conjunction in filter_.conjunctions:
                items = sorted(conjunction.constraints.items(), key=lambda item: _share(item[1], seen[item[0]]))
                self._subscriptions.append((destination, tuple((name, _test(c)) for name, c in items)))

    def match(self, attributes: Mapping[str, Any]) -> set[str]:
        found = set()
        get = attributes.get
        for destination, tests in self._subscriptions:
            for name, test in tests:
                value = get(name)
                if value is None or not test(value):
                    break
            else:
                found.add(destination)
        return found


class GroupedLoop:
    """A loop with the shortcut of the index: it leaves a destination at its first match."""

    def __init__(self, loop: NaiveLoop) -> None:
        self._groups: dict[str, list[tuple[tuple[str, Test], ...]]] = {}
        for destination, tests in loop._subscriptions:  # noqa: SLF001
            self._groups.setdefault(destination, []).append(tests)

    def match(self, attributes: Mapping[str, Any]) -> set[str]:
        return {destination for destination, group in self._groups.items() if _any_matches(group, attributes.get)}


def _any_matches(group: list[tuple[tuple[str, Test], ...]], get: Callable[[str], Any]) -> bool:
    for tests in group:
        for name, test in tests:
            value = get(name)
            if value is None or not test(value):
                break
        else:
            return True
    return False


def _values_by_attribute(sample: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for event in sample:
        for name, value in event.items():
            values.setdefault(name, []).append(value)
    return {name: sorted(seen) for name, seen in values.items()}


def _share(constraint: Constraint, seen: list[Any]) -> float:
    """The share of the values seen that the constraint's ranges admit; patterns are guessed."""
    admitted = sum(_position(seen, high) - _position(seen, low, 0) for low, high in constraint.ranges.intervals())
    return admitted / len(seen) * 0.3 ** len(constraint.patterns)


def _position(seen: list[Any], place: Cut | None, otherwise: int | None = None) -> int:
    if place is None:
        return len(seen) if otherwise is None else otherwise
    return bisect_left(seen, place[0]) if place[1] == BEFORE else bisect_right(seen, place[0])


def _test(constraint: Constraint) -> Test:
    """The fastest test that Python offers for a constraint whose attribute is of the right kind."""
    ranges, points = constraint.ranges, constraint.points()
    if constraint.patterns or ranges.is_everything:
        return constraint.admits
    if points is not None:
        return partial(operator.eq, points[0]) if len(points) == 1 else frozenset(points).__contains__
    match ranges.inside_first, ranges.cuts:
        case True, ((bound, side),):
            return partial(operator.ge if side == AFTER else operator.gt, bound)
        case False, ((bound, side),):
            return partial(operator.lt if side == AFTER else operator.le, bound)
        case False, ((low, 0), (high, 0)):
            return lambda value: bool(low <= value < high)
        case True, ((low, 0), (high, 1)) if low == high:
            return partial(operator.ne, low)
        case _:
            return ranges.__contains__
