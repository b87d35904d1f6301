"""How a metric depends on a parameter: what judgements about curves are made of."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import correlation, linear_regression
from typing import NamedTuple

from pleach.lab.experiment import Summary
from pleach.lab.findings import Condition

LINEAR = 0.8  # correlation from which on we call a curve linear
LINEAR_POINTS_MIN = 5  # of four, one in ten correlates as well by chance


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
        return Condition(f"{name} (one seed)", None)
    return Condition(f"{name} (the intervals are too wide; more seeds would tell)" if holds is None else name, holds)


def is_below(name: str, one: Summary, other: Summary) -> Condition:
    """Not told where the intervals meet."""
    return as_told(name, one.mean < other.mean if are_told_apart(one, other) else None, one, other)


class Growth(NamedTuple):
    """What is said of a curve that is to grow in a line. Where it falls it is not linear either."""

    grows: Condition
    linear: Condition


def linear_growth(name: str, points: Sequence[Summary], x: str) -> Growth:
    """Not told where neither the ends of the curve are told apart nor enough points lie on a line."""
    line, first, last = trend(points, x), points[0], points[-1]
    grows, linear = f"{name} grow", f"{name} grow in a line"
    is_linear = line.rises and line.fit >= LINEAR
    if is_linear and len(points) >= LINEAR_POINTS_MIN:
        return Growth(Condition(grows, holds=True), Condition(linear, holds=True))
    is_constant = all(point.minimum == point.maximum == first.mean for point in points)
    if not is_constant and not are_told_apart(first, last):
        untold = as_told(grows, None, first, last)
        return Growth(untold, untold)
    return Growth(Condition(grows, line.rises), Condition(linear, is_linear))


def ordered(points: Sequence[Summary], x: str) -> list[Summary]:
    return sorted(points, key=lambda point: float(point.case[x]))
