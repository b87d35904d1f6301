"""How a metric depends on a parameter: what judgements about curves are made of."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, isnan
from statistics import correlation, fmean, linear_regression
from typing import NamedTuple

from pleach.lab.experiment import Summary
from pleach.lab.findings import Condition

LINEAR = 0.8  # correlation from which on we call a curve linear
LINEAR_POINTS_MIN = 5  # of four, one in ten correlates as well by chance
OFF_THE_LINE = 1.5  # half widths of an interval: one point in three hundred is further off by chance


class Trend(NamedTuple):
    """The line that fits the means best. `fit`: the correlation, 1 where they lie on a line that rises."""

    slope: float
    at_zero: float
    fit: float

    @property
    def rises(self) -> bool:
        return self.slope > 0


def trend(points: Sequence[Summary], x: str) -> Trend:
    """Of at least two points."""
    xs, means = [float(point.case[x]) for point in points], [point.mean for point in points]
    slope, at_zero = linear_regression(xs, means)
    is_flat = len(set(means)) == 1
    return Trend(slope, at_zero, 0.0 if is_flat else correlation(xs, means))


def has_interval(point: Summary) -> bool:
    """There is none of one seed."""
    return point.low <= point.high


def are_told_apart(one: Summary, other: Summary) -> bool:
    """Whether the confidence intervals of two means leave no doubt which is the larger; of one seed they never do."""
    return one.high < other.low or other.high < one.low


def as_told(name: str, holds: bool | None, *points: Summary) -> Condition:  # noqa: FBT001 what it is about
    """A condition that rests on the intervals of these points, and is not told by one seed."""
    if not all(map(has_interval, points)):
        return _untold(name, is_single=True)
    return _untold(name) if holds is None else Condition(name, holds)


def _untold(name: str, *, is_single: bool = False) -> Condition:
    why = "one seed" if is_single else "the intervals are too wide; more seeds would tell"
    return Condition(f"{name} ({why})", None)


def is_below(name: str, one: Summary, other: Summary) -> Condition:
    """Not told where the intervals meet."""
    return as_told(name, one.mean < other.mean if are_told_apart(one, other) else None, one, other)


class Estimate(NamedTuple):
    """Of several points together. `error`: half of the 95% interval; not a number where there is one seed.

    Errors add up in squares. That is a little too wide where seeds are few, and where both sides met the same ones.
    """

    value: float
    error: float

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, hypot(self.error, other.error))

    def is_above_zero(self, name: str) -> Condition:
        """Not told where zero is in the interval."""
        if isnan(self.error):
            return _untold(name, is_single=True)
        if self.error and abs(self.value) <= self.error:
            return _untold(name)
        return Condition(name, self.value > 0)


def pooled(points: Sequence[Summary]) -> Estimate:
    """The mean over all points, which none of them may tell alone."""
    return Estimate(fmean(point.mean for point in points), hypot(*map(_error, points)) / len(points))


def slope(points: Sequence[Summary], x: str) -> Estimate:
    """Of the line that fits best: all points count for a trend, the outer ones most."""
    xs = [float(point.case[x]) for point in points]
    middle = fmean(xs)
    square = sum((each - middle) ** 2 for each in xs)
    errors = [(each - middle) / square * _error(point) for each, point in zip(xs, points, strict=True)]
    return Estimate(trend(points, x).slope, hypot(*errors))


def _error(point: Summary) -> float:
    return (point.high - point.low) / 2


class GrowthConditions(NamedTuple):
    """What is said of a curve that is to grow in a line. Where it falls it is not linear either."""

    grows: Condition
    linear: Condition


def linear_growth(name: str, points: Sequence[Summary], x: str) -> GrowthConditions:
    """Not told where neither the slope is told apart from none nor enough points lie on a line."""
    grows, linear = f"{name} grow", f"{name} grow in a line"
    line = trend(points, x)
    is_linear = line.rises and line.fit >= LINEAR
    if is_linear and len(points) >= LINEAR_POINTS_MIN:
        return GrowthConditions(Condition(grows, holds=True), Condition(linear, holds=True))
    if all(point.minimum == point.maximum == points[0].mean for point in points):
        return GrowthConditions(Condition(grows, holds=False), Condition(linear, holds=False))
    told = slope(points, x).is_above_zero(grows)
    match told.holds:
        case None:
            return GrowthConditions(told, told)
        case True if not is_linear and not _is_off(line, points, x):
            return GrowthConditions(told, _untold(linear))
        case rises:
            return GrowthConditions(told, Condition(linear, rises and is_linear))


def _is_off(line: Trend, points: Sequence[Summary], x: str) -> bool:
    """Whether a point is too far from the line for chance."""
    expected = [line.at_zero + line.slope * float(point.case[x]) for point in points]
    return any(
        abs(point.mean - there) > OFF_THE_LINE * _error(point) for point, there in zip(points, expected, strict=True)
    )


def ordered(points: Sequence[Summary], x: str) -> list[Summary]:
    return sorted(points, key=lambda point: float(point.case[x]))
