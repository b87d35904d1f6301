"""What `pleach.model` says of the runs in `filtering_runs.py`, and how well they agree.

A point *agrees* where the model's value lies within the simulation's 95% interval: about 95 of 100 do where both are
right. How far they are apart at worst is told as a share of the curve's maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from types import MappingProxyType
from typing import NamedTuple

from pleach.lab.experiment import Case, Status, Summary
from pleach.lab.filtering_runs import (
    CROWD_MAX,
    ENTRIES,
    PER_TOGGLE,
    RATES,
    REFRESHES,
    TOGGLE_MESSAGES,
    TOGGLES,
    control,
    crowd,
    detour,
    leases,
    leases_as_printed,
    saved,
    saved_from_root,
)
from pleach.model import complete
from pleach.model.complete import CompleteTree, Demand, Publishers
from pleach.model.costs import Costs

APART_MAX = 0.02  # of the curve's maximum
CONFIDENCE = 0.95
ERRORS_ALLOWED = 3.0  # standard errors of the share of points within their intervals: "about 95%"

Answer = Callable[[Case], float]


def tree_of(case: Case) -> CompleteTree:
    return CompleteTree(int(case["fanout"]), int(case["levels"]))


def demand_of(case: Case, refresh: float = 1.0, rate: float = 0.0) -> Demand:
    classes = int(case["classes"])
    return Demand(float(case["subscriptions"]), classes, float(case["lifetime"]), refresh, rate * classes)


def costs_of(case: Case, *, refresh: float = 1.0, rate: float = 0.0) -> Costs:
    """With publishers at leaves."""
    return complete.costs(tree_of(case), demand_of(case, refresh, rate), Publishers.LEAVES)


def _answers() -> dict[str, Answer]:
    answers: dict[str, Answer] = {
        TOGGLES: lambda case: complete.toggles(tree_of(case), demand_of(case)),
        TOGGLE_MESSAGES: lambda case: costs_of(case).toggles,
        PER_TOGGLE: lambda case: complete.messages_per_toggle(tree_of(case), demand_of(case)),
        ENTRIES: lambda case: costs_of(case).entries,
    }
    for rho in REFRESHES:
        answers[leases(rho)] = lambda case, rho=rho: costs_of(case, refresh=rho).leases
        answers[leases_as_printed(rho)] = answers[leases(rho)]
        answers[control(rho)] = lambda case, rho=rho: costs_of(case, refresh=rho).control
    for rate in RATES:
        answers[saved(rate)] = lambda case, rate=rate: _saved(costs_of(case, rate=rate))
        answers[saved_from_root(rate)] = lambda case, rate=rate: _saved(costs_of(case, rate=rate)._replace(detour=0.0))
        answers[detour(rate)] = lambda case, rate=rate: costs_of(case, rate=rate).detour
    for count in range(CROWD_MAX + 1):
        answers[crowd(count)] = lambda case, i=count: complete.at_leaf(tree_of(case), demand_of(case), i)
    return answers


def _saved(found: Costs) -> float:
    return found.flooding - found.notifications


ANSWERS: Mapping[str, Answer] = MappingProxyType(_answers())


def expected(metric: str, case: Case) -> float:
    return ANSWERS[metric](case)


# Agreement ------------------------------------------------------------------------------------------------------


class Agreement(NamedTuple):
    points: int
    inside: int  # the interval
    apart: float  # at the worst point, as a share of the maximum of its curve
    is_apart_for_sure: bool  # that point's interval leaves no doubt

    @property
    def is_about_right(self) -> bool:
        if not self.points:
            return False
        error = sqrt(CONFIDENCE * (1 - CONFIDENCE) / self.points)
        return self.inside / self.points >= CONFIDENCE - ERRORS_ALLOWED * error

    @property
    def status(self) -> Status:
        if self.is_about_right and self.apart <= APART_MAX:
            return Status.REPRODUCED
        is_wrong = self.is_apart_for_sure or (self.points and not self.is_about_right)
        return Status.DIFFERS if is_wrong else Status.OPEN

    def __str__(self) -> str:
        share = self.inside / self.points if self.points else 0.0
        return (
            f"model within the simulation's 95% interval at {self.inside} of {self.points} points ({share:.0%}),"
            f" at most {self.apart:.2%} of the curve's maximum apart"
        )


def agreement(curves: Iterable[Sequence[Summary]]) -> Agreement:
    """Each curve: the points of one metric. Where all runs agree there is no interval, and only the distance counts."""
    points = inside = 0
    apart, is_sure = 0.0, False
    for curve in curves:
        model = [expected(point.metric, point.case) for point in curve]
        highest = max(map(abs, model), default=0.0)
        for point, value in zip(curve, model, strict=True):
            has_interval = point.low < point.high  # not a number: there is one seed
            is_inside = has_interval and point.low <= value <= point.high
            points, inside = points + has_interval, inside + is_inside
            if abs(point.mean - value) > apart * highest:
                apart, is_sure = abs(point.mean - value) / highest, has_interval and not is_inside
    return Agreement(points, inside, apart, is_sure)
