"""S1 §5.6.2: how far CI's broadcasts should travel (Experiment 1), and how much a cache should hold (Experiment 2).

Jobs stay where they are, and clients are at hotspots. Costs are those of the last 1,000 ticks, beside what the random
tree costs in the first 1,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, select
from pleach.lab.improve.course import CI, SEEDS, points, setting_of, sized, total
from pleach.lab.improve.rounds import Spent, Tuning, simulate
from pleach.lab.look import curve
from pleach.lab.scales import percent
from pleach.lab.trends import ordered

RADII = {Size.QUICK: (2, 3), Size.USUAL: (2, 3, 4, 6, 8, 12), Size.FULL: (2, 3, 4, 5, 6, 8, 10, 12)}
AMPLE_CACHE = 8_192  # Experiment 1
CACHE_STEP = 256
CACHES = {
    Size.QUICK: (1, 4),
    Size.USUAL: (1, 2, 4, 8, 12, 18, 26, 35),
    Size.FULL: (1, 2, 4, 6, 8, 12, 16, 17, 18, 20, 26, 35),
}
PUBLISHED_RADIUS, PUBLISHED_CACHE = 3, 4_608
NEGLIGIBLE = 0.05
FORWARDING, BROADCASTS, CHANGES, ALL = "forwarding", "broadcasts", "requests and exchanges", "all"


def _ends(case: Case, seed: int, tuning: Tuning) -> tuple[Spent, Spent]:
    first, *_, last = points(simulate(setting_of(case, reassignment_interval=0.0), seed, tuning))
    return first, last


def radius_cases(size: Size) -> list[Case]:
    return [{"radius": radius, **sized(size)} for radius in RADII[size]]


def measure_radius(case: Case, seed: int) -> Iterator[Sample]:
    tuning = Tuning(CI, radius=int(case["radius"]), cache_size=AMPLE_CACHE)
    first, last = _ends(case, seed, tuning)
    yield Sample(FORWARDING, last.forwarding / first.forwarding)
    yield Sample(BROADCASTS, last.broadcasts / first.forwarding)
    yield Sample(CHANGES, (last.requests + last.exchanging) / first.forwarding)
    yield Sample(ALL, total(last) / first.forwarding)


def cache_cases(size: Size) -> list[Case]:
    return [{"cache": CACHE_STEP * x, **sized(size)} for x in CACHES[size]]


def measure_cache(case: Case, seed: int) -> Iterator[Sample]:
    sizes = (int(case["cache"]), int(case["cache"]) + CACHE_STEP)
    (first, small), (_, larger) = (_ends(case, seed, Tuning(CI, cache_size=size)) for size in sizes)
    yield Sample(ALL, total(small) / first.forwarding)
    yield Sample("difference", abs(total(larger) - total(small)) / first.forwarding)


# Figures --------------------------------------------------------------------------------------------------------


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
    grows, few = told[-1] > told[0], changes < NEGLIGIBLE
    if best == PUBLISHED_RADIUS and grows and few:
        return Finding(Status.REPRODUCED, measured)
    return Finding(Status.DIFFERS if grows else Status.REFUTED, measured)


def draw_cache(axes: Any, summaries: Sequence[Summary]) -> None:
    curve(axes, select(summaries, "difference"), "cache", f"difference to a cache larger by {CACHE_STEP}")
    _label(axes, "events in a cache")


def judge_cache(summaries: Sequence[Summary]) -> Finding:
    found = ordered(select(summaries, "difference"), "cache")
    costs = ordered(select(summaries, ALL), "cache")
    same = [int(point.case["cache"]) for point in found if point.maximum == 0]
    first = f"first equal in every run at {same[0]:,}" if same else "never equal in every run"
    measured = (
        f"Runs with {CACHE_STEP} events more or less are {first}; they differ by {found[0].mean:.1%} at"
        f" {found[0].case['cache']:,} and {found[-1].mean:.1%} at {found[-1].case['cache']:,}. CI costs"
        f" {costs[0].mean:.0%} with the smallest cache and {costs[-1].mean:.0%} with the largest."
    )
    if same and abs(same[0] - PUBLISHED_CACHE) <= CACHE_STEP:
        return Finding(Status.REPRODUCED, measured)
    why = " A broker of one job consumes 6,000 events in a run: no smaller ring holds them all, and CI never rests."
    return Finding(Status.DIFFERS, measured + why)


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
