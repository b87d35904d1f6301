"""The agreement of `pleach.model` with the runs of `filtering_runs.py`, as numbers and as plots.

A point *agrees* if the value of the model is within the 95% interval of the simulation: about 95 of 100 do if both are
right. The largest difference is given as a share of the curve's maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import sqrt
from types import MappingProxyType
from typing import Any, NamedTuple

from pleach.lab.experiment import Case, Summary, select
from pleach.lab.figure_style import plain
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s1.chapter3.filtering_runs import (
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
from pleach.lab.trends import ordered
from pleach.model import complete
from pleach.model.complete import CompleteTree, Demand, Publishers
from pleach.model.costs import Costs

APART_MAX = 0.02  # of the curve's maximum
CONFIDENCE = 0.95
ERRORS_ALLOWED = 3.0  # standard errors of the share of points within their intervals: "about 95%"
ALIKE = 0.02  # how far a number may be from the published one and still be called the same
PAPER_CLASSES = 1000
PEAK_MAX = 2  # subscriptions of a class at each leaf: no curve has its maximum beyond
PEAK_STEPS = 16_200

Answer = Callable[[Case], float]


def tree_of(case: Case) -> CompleteTree:
    return CompleteTree(int(case["fanout"]), int(case["levels"]))


def demand_of(case: Case, refresh: float = 1.0, rate: float = 0.0) -> Demand:
    classes = int(case["classes"])
    return Demand(float(case["subscriptions"]), classes, float(case["lifetime"]), refresh, rate * classes)


def costs_of(case: Case, *, refresh: float = 1.0, rate: float = 0.0) -> Costs:
    """With publishers at leaves."""
    return complete.costs(tree_of(case), demand_of(case, refresh, rate), Publishers.LEAVES)


def _leases(refresh: int, case: Case) -> float:
    return costs_of(case, refresh=refresh).leases


def _control(refresh: int, case: Case) -> float:
    return costs_of(case, refresh=refresh).control


def _saved(rate: float, case: Case) -> float:
    found = costs_of(case, rate=rate)
    return found.flooding - found.notifications


def _saved_from_root(rate: float, case: Case) -> float:
    found = costs_of(case, rate=rate)
    return found.flooding - found.filtering


def _detour(rate: float, case: Case) -> float:
    return costs_of(case, rate=rate).detour


def _crowd(count: int, case: Case) -> float:
    return complete.at_leaf(tree_of(case), demand_of(case), count)


def _answers() -> dict[str, Answer]:
    answers: dict[str, Answer] = {
        TOGGLES: lambda case: complete.toggles(tree_of(case), demand_of(case)),
        TOGGLE_MESSAGES: lambda case: costs_of(case).toggles,
        PER_TOGGLE: lambda case: complete.messages_per_toggle(tree_of(case), demand_of(case)),
        ENTRIES: lambda case: costs_of(case).entries,
    }
    for refresh in REFRESHES:
        answers[leases(refresh)] = answers[leases_as_printed(refresh)] = partial(_leases, refresh)
        answers[control(refresh)] = partial(_control, refresh)
    for rate in RATES:
        answers[saved(rate)] = partial(_saved, rate)
        answers[saved_from_root(rate)] = partial(_saved_from_root, rate)
        answers[detour(rate)] = partial(_detour, rate)
    answers |= {crowd(count): partial(_crowd, count) for count in range(CROWD_MAX + 1)}
    return answers


ANSWERS: Mapping[str, Answer] = MappingProxyType(_answers())


def expected(metric: str, case: Case) -> float:
    return ANSWERS[metric](case)


def peak(metric: str, case: Case) -> float:
    """The number of subscriptions at which the model has its maximum, to a few; the case's own does not matter."""
    places = tree_of(case).leaves * int(case["classes"])
    counts = [PEAK_MAX * places * step / PEAK_STEPS for step in range(PEAK_STEPS + 1)]
    return max(counts, key=lambda count: expected(metric, {**case, "subscriptions": count}))


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
    def condition(self) -> Condition:
        name = f"the model within the intervals, and {APART_MAX:.0%} of the maximum"
        if self.is_about_right and self.apart <= APART_MAX:
            return Condition(name, holds=True)
        is_wrong = self.is_apart_for_sure or (self.points > 0 and not self.is_about_right)
        return Condition(name, holds=False if is_wrong else None)

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


# Judgements -----------------------------------------------------------------------------------------------------


def points(summaries: Sequence[Summary], metric: str, lifetime: int) -> list[Summary]:
    """One curve, by the number of subscriptions."""
    return ordered(select(summaries, metric, lifetime=lifetime), "subscriptions")


def is_alike(found: float | None, published: float) -> bool:
    return found is not None and abs(found / published - 1) <= ALIKE


def is_papers_own(summaries: Sequence[Summary]) -> bool:
    """Published numbers are those of the paper's network; a smaller one is compared with the model alone."""
    return int(summaries[0].case["classes"]) == PAPER_CLASSES


def finding(agrees: Agreement, measured: str, summaries: Sequence[Summary], *published: Condition) -> Finding:
    """`published`: numbers of the paper's network that have to come out, too, where the model is known to be right."""
    agreed = agrees.condition
    has_published = is_papers_own(summaries) and agreed.holds is not None
    return judged(measured, besides=[agreed, *published] if has_published else [agreed])


LINE_POINTS = 200


def versus(axes: Any, points: Sequence[Summary], label: str) -> None:
    """Points of one metric, by the number of subscriptions."""
    (line,) = axes.plot(*_modelled(points), marker="", label=label)
    xs = [float(point.case["subscriptions"]) for point in points]
    below = [max(point.mean - point.low, 0.0) for point in points]
    above = [max(point.high - point.mean, 0.0) for point in points]
    means = [point.mean for point in points]
    axes.errorbar(xs, means, (below, above), linestyle="", marker="o", markersize=4, color=line.get_color())
    axes.set_xlabel("active subscriptions (lines: model, points: simulation)")
    axes.xaxis.set_major_formatter(plain)


def _modelled(points: Sequence[Summary]) -> tuple[list[float], list[float]]:
    metric, case = points[0].metric, points[0].case
    counts = [float(point.case["subscriptions"]) for point in points]
    low, high = min(counts), max(counts)
    xs = [low + (high - low) * i / LINE_POINTS for i in range(LINE_POINTS + 1)]
    return xs, [expected(metric, {**case, "subscriptions": x}) for x in xs]
