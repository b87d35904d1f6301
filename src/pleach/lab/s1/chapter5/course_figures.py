"""S1 Fig. 5.8 to 5.14 (Experiments 3 to 8), from the measurements of `course.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pleach.lab.experiment import Experiment, Figure, Summary, select
from pleach.lab.findings import Condition, Finding, Status, judged
from pleach.lab.improve.course import (
    BOUND,
    CI,
    HEURISTICS,
    LMIT,
    LMST,
    NAMES,
    PUBLISHED_ONES,
    SEEDS,
    SETTLING,
    at_the_end,
    draw_over_time,
    draw_shares,
    over_time,
)
from pleach.lab.improve.setting import CHANGES_AT, DRIFT_TICKS, Change
from pleach.lab.s1.chapter5.course import HOTSPOTS, UNIFORM, cases, changing_cases, measure, measure_changing
from pleach.lab.trends import are_told_apart, as_told, is_below

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


AS_GOOD = 0.02  # shares of cost that differ by less are the same
WORSE = 0.10  # a share of cost that rises by less than this has followed the changes
PUBLISHED_EXCHANGES = 83
SIMILAR = 0.25
HALF = (0.3, 0.7)  # what is taken for about half
AT_REST = 1.0  # exchanges per 1,000 ticks
NO_CHANGE = Finding(Status.OPEN, "The runs are too short to have a change in them.")


def draw_abrupt(axes: Any, summaries: Sequence[Summary]) -> None:
    draw_shares(axes, summaries, change=Change.ABRUPT.value)
    axes.legend(ncols=2)


def draw_slow(axes: Any, summaries: Sequence[Summary]) -> None:
    draw_shares(axes, summaries, change=Change.SLOW.value)
    axes.legend(ncols=2)


def draw_exchanges(axes: Any, summaries: Sequence[Summary]) -> None:
    for panel, change in zip(axes, (Change.ABRUPT, Change.SLOW), strict=True):
        draw_over_time(panel, summaries, "exchanges", change=change.value)
        panel.set_title(f"{change.value} changes")
        panel.set_ylabel("exchanges per 1,000 ticks")
        panel.set_yscale("symlog", linthresh=1.0)
    axes[0].legend()


class Jump(NamedTuple):
    """A curve right before a change, and right after it."""

    before: Summary
    after: Summary

    @property
    def height(self) -> float:
        return self.after.mean - self.before.mean

    @property
    def is_spike(self) -> bool:
        """Told apart: noise jumps, too."""
        return self.height > 0 and are_told_apart(self.before, self.after)


def jumps(curve: Sequence[Summary], moments: Sequence[int]) -> list[Jump]:
    at = {int(point.case["ticks passed"]): point for point in curve}
    return [Jump(at[ticks], at[ticks + 1_000]) for ticks in moments if ticks + 1_000 in at]


def judge_abrupt(summaries: Sequence[Summary]) -> Finding:
    curves = {each: over_time(summaries, f"cost {each}", change=Change.ABRUPT.value) for each in HEURISTICS}
    found = {each: jumps(curve, CHANGES_AT) for each, curve in curves.items()}
    if not all(found.values()):
        return NO_CHANGE
    rise = {each: fmean(jump.height for jump in those) for each, those in found.items()}
    ends = {each: curve[-1] for each, curve in curves.items()}
    measured = (
        "When costs and loads change, a tree's share of the random tree's cost rises by: "
        + ", ".join(f"{NAMES[each]} {height:+.0%}{_seen(found[each])}" for each, height in rise.items())
        + f". At the end: {said_of(ends)}.{hub(summaries, change=Change.ABRUPT.value)}"
    )
    spikes = [_spikes(each, found[each]) for each in (LMST, CI)]
    hardly = Condition("ℓMIT rises less than both", rise[LMIT] < min(rise[LMST], rise[CI]))
    return judged(measured, core=[_followed(ends)], besides=[*spikes, hardly, _is_as_good(ends)])


def _seen(found: Sequence[Jump]) -> str:
    return f" (beyond the intervals at {sum(jump.is_spike for jump in found)} of {len(found)} changes)"


def _spikes(heuristic: str, found: Sequence[Jump]) -> Condition:
    points = [point for jump in found for point in jump]
    return as_told(f"{NAMES[heuristic]} has a spike at each change", all(jump.is_spike for jump in found), *points)


def _followed(ends: Mapping[str, Summary]) -> Condition:
    return Condition("all are below the random tree in the end", all(end.mean < 1.0 for end in ends.values()))


def _is_as_good(ends: Mapping[str, Summary]) -> Condition:
    return Condition("CI is best or as good in the end", ends[CI].mean <= ends[LMST].mean + AS_GOOD)


def judge_slow(summaries: Sequence[Summary]) -> Finding:
    curves = {each: over_time(summaries, f"cost {each}", change=Change.SLOW.value) for each in HEURISTICS}
    if int(curves[CI][-1].case["ticks passed"]) <= DRIFT_TICKS[1]:
        return NO_CHANGE
    before = {each: found[DRIFT_TICKS[0] // 1_000 - 1] for each, found in curves.items()}
    ends = {each: found[-1] for each, found in curves.items()}
    abrupt = over_time(summaries, f"cost {LMIT}", change=Change.ABRUPT.value)[-1]
    measured = (
        f"Before costs and loads drift: {said_of(before)}; at the end: {said_of(ends)}. ℓMIT ends at {abrupt.mean:.0%}"
        f" after abrupt changes.{hub(summaries, change=Change.SLOW.value)}"
    )
    stays = all(ends[each].mean < before[each].mean + WORSE for each in PUBLISHED_ONES)
    return judged(
        measured,
        core=[
            Condition(f"no cost rises by more than {WORSE:.0%} of the random tree's", stays),
            _followed({each: ends[each] for each in PUBLISHED_ONES}),
        ],
        besides=[
            _is_as_good(ends),
            is_below("ℓMIT ends lower than after abrupt changes", ends[LMIT], abrupt),
        ],
    )


def at_rest(summaries: Sequence[Summary], heuristic: str) -> float:
    """Exchanges per 1,000 ticks in the last fifth of the run with abrupt changes."""
    curve = over_time(summaries, f"exchanges {heuristic}", change=Change.ABRUPT.value)
    return fmean(point.mean for point in curve[-max(1, len(curve) // 5) :])


def judge_exchanges(summaries: Sequence[Summary]) -> Finding:
    rate = {each: at_rest(summaries, each) for each in HEURISTICS}
    measured = "Exchanges per 1,000 ticks, long after the last change: " + ", ".join(
        f"{NAMES[each]} {count:,.1f}" for each, count in rate.items()
    )
    restless = [
        Condition(f"{NAMES[each]} never comes to rest (more than {AT_REST:g})", rate[each] > AT_REST)
        for each in (LMIT, CI)
    ]
    is_close = abs(rate[CI] / PUBLISHED_EXCHANGES - 1) < SIMILAR
    is_half = rate[CI] > 0 and HALF[0] < rate[LMIT] / rate[CI] < HALF[1]
    return judged(
        f"{measured}. Jobs still move: one in 50 ticks.{hub(summaries, change=Change.ABRUPT.value)}",
        core=[Condition("ℓMST comes to rest", rate[LMST] < AT_REST), *restless],
        besides=[
            Condition(f"about {PUBLISHED_EXCHANGES} exchanges of CI", is_close),
            Condition("ℓMIT has about half as many as CI", is_half),
        ],
    )


ADAPTIVITY = Experiment(
    name="s1-adaptivity",
    about="trees that improve themselves while costs and loads change: S1 Experiments 5, 6, 8",
    cases=changing_cases,
    seeds=SEEDS,
    measure=measure_changing,
    figures=(
        Figure(
            "s1-fig5-10",
            "S1 Fig. 5.10",
            "Experiment 5: all costs and loads change at once",
            "All follow; ℓMST and CI show a spike at each change, ℓMIT hardly. CI is best or as good.",
            draw_abrupt,
            judge_abrupt,
        ),
        Figure(
            "s1-fig5-11",
            "S1 Fig. 5.11",
            "Experiment 6: costs and loads change slowly",
            "All follow; ℓMIT ends lower than after abrupt changes; CI is best.",
            draw_slow,
            judge_slow,
        ),
        Figure(
            "s1-fig5-13",
            "S1 Fig. 5.13, 5.14",
            "Experiment 8: do they come to rest?",
            "ℓMST comes to rest at once, also after changes. CI never does, about 83 exchanges per 1,000 ticks; nor"
            " does ℓMIT, about half as many.",
            draw_exchanges,
            judge_exchanges,
            panels=2,
        ),
    ),
    cost=lambda case: float(case["ticks"]),
)


def hub(summaries: Sequence[Summary], **wanted: str) -> str:
    """A sentence for findings that praise it; nothing where no degrees were measured."""
    degrees = select(summaries, f"degree {SETTLING}", **wanted)
    if not degrees:
        return ""
    most = max(degree.maximum for degree in degrees)
    return f" Ours has a hub of up to {most:.0f} neighbours, which S1's cost does not charge for."
