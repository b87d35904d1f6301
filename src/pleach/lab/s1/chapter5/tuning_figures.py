"""S1 Fig. 5.6, 5.7, 5.15 and 5.16, from the measurements of `course.py`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Summary, select
from pleach.lab.figure_style import curve, percent
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.improve.course import CI, HEURISTICS, LMIT, LMST, NAMES, PUBLISHED_ONES, SEEDS
from pleach.lab.s1.chapter5.course import (
    ALL,
    BROADCASTS,
    CACHE_STEP,
    CHANGES,
    DIFFERENCE,
    FORWARDING,
    SAVED,
    cache_cases,
    locality_cases,
    measure_cache,
    measure_locality,
    measure_radius,
    measure_weights,
    radius_cases,
    weight_cases,
)
from pleach.lab.s1.chapter5.course_figures import hub
from pleach.lab.trends import are_told_apart, as_told, ordered, trend

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


LITTLE = 0.10  # "only little performance increase"
ABOUT_THE_SAME_POINTS = 5.0  # percentage points of the random tree's cost


def curves(summaries: Sequence[Summary], x: str) -> dict[str, list[Summary]]:
    return {each: ordered(select(summaries, f"{SAVED} {each}"), x) for each in HEURISTICS}


def _draw(axes: Any, summaries: Sequence[Summary], x: str) -> None:
    for heuristic, found in curves(summaries, x).items():
        curve(axes, found, x, NAMES[heuristic])
    axes.set_ylabel("saved of the random tree's cost")
    axes.yaxis.set_major_formatter(percent)
    axes.legend()


def draw_weights(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, "processing")
    axes.set_xlabel("α: share of processing in the highest costs")


def draw_locality(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, "locality")
    axes.set_xlabel("locality")


def _from_to(found: dict[str, list[Summary]]) -> str:
    return ", ".join(f"{NAMES[each]} {line[0].mean:.0%} to {line[-1].mean:.0%}" for each, line in found.items())


def judge_weights(summaries: Sequence[Summary]) -> Finding:
    found = curves(summaries, "processing")
    beaten = [
        float(ci.case["processing"])
        for place, ci in enumerate(found[CI])
        for other in (LMST, LMIT)
        if found[other][place].mean > ci.mean and are_told_apart(found[other][place], ci)
    ]
    where = f" CI is beaten at α = {', '.join(f'{alpha:g}' for alpha in sorted(set(beaten)))}." if beaten else ""
    measured = f"Saved, from α = 0 to 1: {_from_to(found)}.{where}{hub(summaries)}"
    at_the_ends = [line[place] for line in (found[LMST], found[LMIT], found[CI]) for place in (0, -1)]
    return judged(
        measured,
        core=[as_told("CI as good as the best everywhere", not beaten, *at_the_ends)],
        besides=[
            Condition("ℓMST saves less the more processing costs", found[LMST][-1].mean < found[LMST][0].mean),
            Condition("ℓMIT saves more than ℓMST in the end", found[LMIT][-1].mean > found[LMST][-1].mean),
        ],
    )


def judge_locality(summaries: Sequence[Summary]) -> Finding:
    found = curves(summaries, "locality")
    average = {each: fmean(point.mean for point in line) for each, line in found.items()}
    measured = f"Saved, from locality 0 to 1: {_from_to(found)}.{hub(summaries)}"
    little = all(0 < found[each][-1].mean - found[each][0].mean <= LITTLE for each in PUBLISHED_ONES)
    is_ahead = average[CI] > max(average[LMST], average[LMIT])
    rises = all(trend(line, "locality").rises for line in found.values())
    points = max(100 * abs(one.mean - other.mean) for one, other in zip(found[LMST], found[LMIT], strict=True))
    return judged(
        measured,
        core=[Condition("CI is ahead on average, or all gain", is_ahead or rises)],
        besides=[
            Condition("CI is ahead on average", is_ahead),
            Condition(f"all gain from locality, at most {LITTLE:.0%}", little),
            Condition(f"ℓMST and ℓMIT are about the same ({points:.0f} points apart)", points <= ABOUT_THE_SAME_POINTS),
        ],
    )


WEIGHTS = Experiment(
    name="s1-weights",
    about="heuristics by what processing costs beside communication: S1 Experiment 9",
    cases=weight_cases,
    seeds=SEEDS,
    measure=measure_weights,
    figures=(
        Figure(
            "s1-fig5-15",
            "S1 Fig. 5.15",
            "Experiment 9: processing against communication",
            "ℓMST saves less the more processing costs; ℓMIT saves the same throughout, at the end more than ℓMST; CI"
            " is as good as the best or better everywhere.",
            draw_weights,
            judge_weights,
        ),
    ),
)

LOCALITY = Experiment(
    name="s1-locality",
    about="heuristics by how near subscribers are to their publishers: S1 Experiment 10",
    cases=locality_cases,
    seeds=SEEDS,
    measure=measure_locality,
    figures=(
        Figure(
            "s1-fig5-16",
            "S1 Fig. 5.16",
            "Experiment 10: subscribers near their publishers",
            "All gain a little from locality; ℓMST and ℓMIT are about the same, CI about 10% better.",
            draw_locality,
            judge_locality,
        ),
    ),
)
