"""The loop that the matching index is measured against: every subscription, its most selective predicate first."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from pleach.core.events.constraint import Constraint
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import AFTER, BEFORE, Cut

Test: TypeAlias = Callable[[Any], bool]
Subscription: TypeAlias = tuple[str, tuple[tuple[str, Test], ...]]  # destination, tests by attribute


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
    """A loop that knows the trick of the index: a destination is done with its first subscription that matches."""

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
