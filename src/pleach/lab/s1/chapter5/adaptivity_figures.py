"""S1 Fig. 5.10, 5.11, 5.13 and 5.14 (Experiments 5, 6, 8), from what `course.py` measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pleach.lab.experiment import Experiment, Figure, Summary
from pleach.lab.findings import Condition, Finding, Status, judged
from pleach.lab.improve.course import (
    CI,
    HEURISTICS,
    LMIT,
    LMST,
    NAMES,
    PUBLISHED_ONES,
    SEEDS,
    draw_over_time,
    draw_shares,
    over_time,
)
from pleach.lab.improve.setting import CHANGES_AT, DRIFT_TICKS, Change
from pleach.lab.s1.chapter5.course import changing_cases, measure_changing
from pleach.lab.s1.chapter5.hub import hub
from pleach.lab.s1.chapter5.performance_figures import said_of
from pleach.lab.trends import are_told_apart, as_told, is_below

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
