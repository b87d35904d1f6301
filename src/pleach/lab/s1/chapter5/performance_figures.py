"""S1 Fig. 5.8, 5.9 and 5.12 (Experiments 3, 4, 7), from what `course.py` measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Summary, select
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.improve.course import (
    BOUND,
    CI,
    HEURISTICS,
    LMIT,
    LMST,
    NAMES,
    PUBLISHED_ONES,
    SEEDS,
    at_the_end,
    draw_shares,
)
from pleach.lab.s1.chapter5.course import HOTSPOTS, UNIFORM, cases, measure
from pleach.lab.s1.chapter5.hub import hub
from pleach.lab.trends import are_told_apart, as_told

ABOUT_HALF = 0.55
FEW_LINKS = 2
PUBLISHED_NEIGHBOURS = {CI: 21, LMST: 19, LMIT: 18}
SIMILAR = 0.25


def draw_placement(axes: Any, summaries: Sequence[Summary], placement: str) -> None:
    draw_shares(axes, summaries, placement=placement)
    for bound in select(summaries, BOUND, placement=placement):
        axes.axhline(bound.mean, color="#888888", marker="", linestyle=":", label=NAMES[BOUND])
    axes.legend(ncols=2)


def draw_uniform(axes: Any, summaries: Sequence[Summary]) -> None:
    draw_placement(axes, summaries, UNIFORM)


def draw_hotspots(axes: Any, summaries: Sequence[Summary]) -> None:
    draw_placement(axes, summaries, HOTSPOTS)


def costs_at_the_end(summaries: Sequence[Summary], **wanted: str) -> dict[str, Summary]:
    return {each: at_the_end(summaries, f"cost {each}", **wanted) for each in HEURISTICS}


def said_of(costs: Mapping[str, Summary]) -> str:
    return ", ".join(f"{NAMES[each]} {cost.mean:.0%}" for each, cost in costs.items())


def judge_uniform(summaries: Sequence[Summary]) -> Finding:
    costs = costs_at_the_end(summaries, placement=UNIFORM)
    bound = select(summaries, BOUND, placement=UNIFORM)[0].mean
    measured = (
        f"Of the random tree's cost: {said_of(costs)}; a tree for each event {bound:.0%}."
        f"{hub(summaries, placement=UNIFORM)}"
    )
    is_low = costs[CI].mean <= ABOUT_HALF
    low = Condition(f"CI at nearly half of the random tree's cost (at most {ABOUT_HALF:.0%})", is_low)
    return judged(measured, core=_is_best(costs), besides=[_in_order(costs), low])


def judge_hotspots(summaries: Sequence[Summary]) -> Finding:
    even, costs = (costs_at_the_end(summaries, placement=placement) for placement in (UNIFORM, HOTSPOTS))
    gained = ", ".join(f"{NAMES[each]} {even[each].mean - costs[each].mean:+.0%}" for each in PUBLISHED_ONES)
    measured = (
        f"Of the random tree's cost: {said_of(costs)}. Better than with uniform clients by: {gained}."
        f"{hub(summaries, placement=HOTSPOTS)}"
    )
    exploited = [
        Condition(f"{NAMES[each]} is better than with uniform clients", costs[each].mean < even[each].mean)
        for each in (CI, LMIT)
    ]
    low = Condition("CI below half of the random tree's cost", costs[CI].mean < 0.5)
    return judged(measured, core=_is_best(costs), besides=[_in_order(costs), low, *exploited])


def _is_best(costs: Mapping[str, Summary]) -> list[Condition]:
    """S1 says that CI is best of the three; the figures come second."""
    return [
        as_told(f"{NAMES[other]} is not better than CI", not _is_surely_below(costs[other], costs[CI]), *costs.values())
        for other in (LMST, LMIT)
    ]


def _is_surely_below(one: Summary, other: Summary) -> bool:
    return one.mean < other.mean and are_told_apart(one, other)


def _in_order(costs: Mapping[str, Summary]) -> Condition:
    is_in_order = costs[CI].mean < costs[LMST].mean < costs[LMIT].mean < 1.0
    return Condition("CI, ℓMST, ℓMIT and the random tree in this order", is_in_order)


# Experiment 7 -----------------------------------------------------------------------------------------------------


def draw_degrees(axes: Any, summaries: Sequence[Summary]) -> None:
    """Quantiles of the degrees over all brokers and seeds: summaries have no counts of single degrees."""
    shown = {h: select(summaries, f"degree {h}", placement=HOTSPOTS) for h in HEURISTICS}
    for heuristic, found in shown.items():
        for each in found:
            axes.plot([50, 95, 99, 100], [each.p50, each.p95, each.p99, each.maximum], label=NAMES[heuristic])
    axes.set_xlabel("percentile of brokers")
    axes.set_ylabel("neighbours of a broker")
    axes.set_yscale("log")
    axes.legend()


def judge_degrees(summaries: Sequence[Summary]) -> Finding:
    found = {each: select(summaries, f"degree {each}", placement=HOTSPOTS)[0] for each in HEURISTICS}
    measured = "Most neighbours of a broker: " + ", ".join(
        f"{NAMES[each]} {degree.maximum:,.0f} (half of them have at most {degree.p50:,.0f})"
        for each, degree in found.items()
    )
    in_order = found[CI].maximum > found[LMST].maximum > found[LMIT].maximum
    as_many = [
        Condition(f"at most about {many} neighbours with {NAMES[each]}", abs(found[each].maximum / many - 1) < SIMILAR)
        for each, many in PUBLISHED_NEIGHBOURS.items()
    ]
    most_have_few = Condition(
        "most brokers have one or two", all(found[each].p50 <= FEW_LINKS for each in PUBLISHED_ONES)
    )
    return judged(
        f"{measured}. S1's cost does not charge for neighbours.",
        besides=[most_have_few, Condition("CI has the most, ℓMIT the fewest", in_order), *as_many],
    )


PERFORMANCE = Experiment(
    name="s1-performance",
    about="costs of trees that improve themselves, clients spread evenly and not: S1 Experiments 3, 4, 7",
    cases=cases,
    seeds=SEEDS,
    measure=measure,
    figures=(
        Figure(
            "s1-fig5-8",
            "S1 Fig. 5.8",
            "Experiment 3: costs with clients spread evenly",
            "CI lowers the costs to nearly half of the random tree's by tick 12,000, ℓMST follows (and is faster), ℓMIT"
            " is worst of the three; all are well below the random tree.",
            draw_uniform,
            judge_uniform,
        ),
        Figure(
            "s1-fig5-9",
            "S1 Fig. 5.9",
            "Experiment 4: costs with clients at hotspots",
            "CI and ℓMIT exploit hotspots, ℓMST does not; CI is best, below half of the random tree's cost.",
            draw_hotspots,
            judge_hotspots,
        ),
        Figure(
            "s1-fig5-12",
            "S1 Fig. 5.12",
            "Experiment 7: neighbours of brokers",
            "Few brokers have many neighbours, most one or two; at most CI 21, ℓMST 19, ℓMIT 18.",
            draw_degrees,
            judge_degrees,
        ),
    ),
)
