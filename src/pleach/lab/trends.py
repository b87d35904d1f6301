"""How a metric depends on a parameter: what judgements about curves are made of."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import correlation, linear_regression
from typing import NamedTuple

from pleach.lab.experiment import Summary


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


def are_told_apart(one: Summary, other: Summary) -> bool:
    """Whether the confidence intervals of two means leave no doubt which is the larger; with one seed they do."""
    return one.high < other.low or other.high < one.low


def ordered(points: Sequence[Summary], x: str) -> list[Summary]:
    return sorted(points, key=lambda point: float(point.case[x]))
