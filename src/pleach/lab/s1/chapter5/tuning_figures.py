"""S1 Fig. 5.6 and 5.7, from the measurements of `tuning.py`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Summary, select
from pleach.lab.figure_style import curve, percent
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.improve.course import SEEDS
from pleach.lab.s1.chapter5.tuning import (
    ALL,
    BROADCASTS,
    CACHE_STEP,
    CHANGES,
    DIFFERENCE,
    FORWARDING,
    cache_cases,
    measure_cache,
    measure_radius,
    radius_cases,
)
from pleach.lab.trends import ordered

PUBLISHED_RADIUS, PUBLISHED_CACHE = 3, 4_608
NEGLIGIBLE = 0.05


def draw_radius(axes: Any, summaries: Sequence[Summary]) -> None:
    for metric in (ALL, FORWARDING, BROADCASTS, CHANGES):
        curve(axes, select(summaries, metric), "radius", metric)
    _label(axes, "hops that a broadcast travels")


def _label(axes: Any, x: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel("cost of the random tree = 100%")
    axes.yaxis.set_major_formatter(percent)
    axes.set_ylim(bottom=0)
    axes.legend()


def judge_radius(summaries: Sequence[Summary]) -> Finding:
    costs = {int(s.case["radius"]): s for s in ordered(select(summaries, ALL), "radius")}
    told = [s.mean for s in ordered(select(summaries, BROADCASTS), "radius")]
    changes = fmean(s.mean for s in select(summaries, CHANGES))
    best = min(costs, key=lambda radius: costs[radius].mean)
    beside = "" if best == PUBLISHED_RADIUS else f"; with {PUBLISHED_RADIUS} {costs[PUBLISHED_RADIUS].mean:.0%}"
    measured = (
        f"Cheapest with {best} hops, {costs[best].mean:.0%} of the random tree's cost{beside}."
        f" Broadcasts cost {told[0]:.1%} with {min(costs)} hops and {told[-1]:.1%}"
        f" with {max(costs)}; requests and exchanges {changes:.1%} on average."
    )
    return judged(
        measured,
        core=[Condition("broadcasts cost more the farther they travel", told[-1] > told[0])],
        besides=[
            Condition(f"{PUBLISHED_RADIUS} hops are best", best == PUBLISHED_RADIUS),
            Condition(f"requests and exchanges cost less than {NEGLIGIBLE:.0%}", changes < NEGLIGIBLE),
        ],
    )


def draw_cache(axes: Any, summaries: Sequence[Summary]) -> None:
    curve(axes, select(summaries, DIFFERENCE), "cache", f"difference to a cache larger by {CACHE_STEP}")
    _label(axes, "events in a cache")


def judge_cache(summaries: Sequence[Summary]) -> Finding:
    found = ordered(select(summaries, DIFFERENCE), "cache")
    costs = ordered(select(summaries, ALL), "cache")
    same = [int(point.case["cache"]) for point in found if point.maximum == 0]
    first = f"first equal in every run at {same[0]:,}" if same else "never equal in every run"
    measured = (
        f"Runs with {CACHE_STEP} events more or less are {first}; they differ by {found[0].mean:.1%} at"
        f" {found[0].case['cache']:,} and {found[-1].mean:.1%} at {found[-1].case['cache']:,}. CI costs"
        f" {costs[0].mean:.0%} with the smallest cache and {costs[-1].mean:.0%} with the largest."
    )
    is_as_said = bool(same) and abs(same[0] - PUBLISHED_CACHE) <= CACHE_STEP
    if not is_as_said:
        measured += " A broker of one job consumes 6,000 events in a run: no smaller ring holds them all, and CI never"
        measured += " rests."
    return judged(measured, besides=[Condition(f"equal in every run from {PUBLISHED_CACHE:,} events on", is_as_said)])


RADIUS = Experiment(
    name="s1-radius",
    about="how far the broadcasts of CI should travel: S1 Experiment 1",
    cases=radius_cases,
    seeds=SEEDS,
    measure=measure_radius,
    cost=lambda case: float(case["radius"]),
    figures=(
        Figure(
            "s1-fig5-6",
            "S1 Fig. 5.6",
            "Experiment 1: how far broadcasts travel",
            "CI is best with 3 hops (3 to 12 were tried); beyond, broadcasts cost more than they bring. What"
            " reconfigurations cost is negligible.",
            draw_radius,
            judge_radius,
        ),
    ),
)

CACHE = Experiment(
    name="s1-cache",
    about="how many events a cache should hold: S1 Experiment 2",
    cases=cache_cases,
    seeds=SEEDS,
    measure=measure_cache,
    figures=(
        Figure(
            "s1-fig5-7",
            "S1 Fig. 5.7",
            "Experiment 2: how much a cache holds",
            "From 4,608 events on, 256 more make no difference in any of 50 runs.",
            draw_cache,
            judge_cache,
        ),
    ),
)
