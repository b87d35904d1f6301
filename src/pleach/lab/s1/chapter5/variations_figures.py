"""S1 Fig. 5.15 and 5.16, from the measurements of `variations.py`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Summary, select
from pleach.lab.figure_style import curve, percent
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.improve.course import CI, HEURISTICS, LMIT, LMST, NAMES, PUBLISHED_ONES, SEEDS
from pleach.lab.s1.chapter5.course_figures import hub
from pleach.lab.s1.chapter5.variations import SAVED, locality_cases, measure_locality, measure_weights, weight_cases
from pleach.lab.trends import are_told_apart, as_told, ordered, trend

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
