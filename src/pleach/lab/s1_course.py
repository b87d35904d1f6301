"""S1 §5.6.3, §5.6.4: how heuristics bring the costs of a tree down (Experiments 3, 4, 7), follow changes (5, 6), and
whether they come to rest (8). All meet the same networks, jobs and events, and start from the same random tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, select
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
    bound_at_the_end,
    course,
    draw_over_time,
    draw_shares,
    over_time,
    setting_of,
    sized,
)
from pleach.lab.improve.setting import CHANGES_AT, DRIFT_TICKS, Change
from pleach.lab.trends import are_told_apart

UNIFORM, HOTSPOTS = "uniform", "hotspots"
LOAD_MIN = {UNIFORM: 1.0, HOTSPOTS: 0.1}
CHANGING_TICKS = {Size.QUICK: 4_000, Size.USUAL: 75_000, Size.FULL: 75_000}
ABOUT_HALF = 0.55
AS_GOOD = 0.02  # shares of cost that differ by less are the same
FEW_LINKS = 2
PUBLISHED_EXCHANGES = 83
PUBLISHED_NEIGHBOURS = {CI: 21, LMST: 19, LMIT: 18}
SIMILAR = 0.25
AT_REST = 1.0  # exchanges per 1,000 ticks


def cases(size: Size) -> list[Case]:
    return [{"placement": placement, **sized(size)} for placement in (UNIFORM, HOTSPOTS)]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    setting = setting_of(case, load_min=LOAD_MIN[str(case["placement"])])
    yield from course(setting, seed)
    yield Sample(BOUND, bound_at_the_end(setting, seed))


def changing_cases(size: Size) -> list[Case]:
    changes = (Change.ABRUPT, Change.SLOW)
    return [{**sized(size), "change": change.value, "ticks": CHANGING_TICKS[size]} for change in changes]


def measure_changing(case: Case, seed: int) -> Iterator[Sample]:
    return course(setting_of(case, change=Change(str(case["change"]))), seed)


# Experiments 3 and 4 ----------------------------------------------------------------------------------------------


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


def _said(costs: dict[str, Summary]) -> str:
    return ", ".join(f"{NAMES[each]} {cost.mean:.0%}" for each, cost in costs.items())


def judge_uniform(summaries: Sequence[Summary]) -> Finding:
    costs = costs_at_the_end(summaries, placement=UNIFORM)
    bound = select(summaries, BOUND, placement=UNIFORM)[0].mean
    measured = f"Of the random tree's cost: {_said(costs)}; a tree for each event {bound:.0%}."
    return Finding(_of_performance(costs, is_low=costs[CI].mean <= ABOUT_HALF), measured)


def judge_hotspots(summaries: Sequence[Summary]) -> Finding:
    even, costs = (costs_at_the_end(summaries, placement=placement) for placement in (UNIFORM, HOTSPOTS))
    gained = ", ".join(f"{NAMES[each]} {even[each].mean - costs[each].mean:+.0%}" for each in PUBLISHED_ONES)
    measured = f"Of the random tree's cost: {_said(costs)}. Better than with uniform clients by: {gained}."
    exploited = all(costs[each].mean < even[each].mean for each in (CI, LMIT))
    return Finding(_of_performance(costs, is_low=costs[CI].mean < 0.5 and exploited), measured)


def _of_performance(costs: dict[str, Summary], *, is_low: bool) -> Status:
    """S1 says that CI is best of the three; the figures come second."""
    others = [costs[LMST], costs[LMIT]]
    if any(other.mean < costs[CI].mean and are_told_apart(other, costs[CI]) for other in others):
        return Status.REFUTED
    is_in_order = costs[CI].mean < costs[LMST].mean < costs[LMIT].mean < 1.0
    return Status.REPRODUCED if is_in_order and is_low else Status.DIFFERS


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
    most_have_few = all(found[each].p50 <= FEW_LINKS for each in PUBLISHED_ONES)
    in_order = found[CI].maximum > found[LMST].maximum > found[LMIT].maximum
    as_many = all(abs(found[each].maximum / many - 1) < SIMILAR for each, many in PUBLISHED_NEIGHBOURS.items())
    agrees = most_have_few and in_order and as_many
    return Finding(Status.REPRODUCED if agrees else Status.DIFFERS, f"{measured}.")


# Experiments 5, 6, 8 ----------------------------------------------------------------------------------------------


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


def jumps(curve: Sequence[Summary], moments: Sequence[int]) -> list[float]:
    """How much higher a curve is right after each of the moments than right before."""
    at = {int(point.case["ticks passed"]): point.mean for point in curve}
    return [at[ticks + 1_000] - at[ticks] for ticks in moments if ticks + 1_000 in at]


def judge_abrupt(summaries: Sequence[Summary]) -> Finding:
    curves = {each: over_time(summaries, f"cost {each}", change=Change.ABRUPT.value) for each in HEURISTICS}
    spikes = {each: jumps(found, CHANGES_AT) for each, found in curves.items()}
    if not all(spikes.values()):
        return Finding(Status.OPEN, "The runs are too short to have a change in them.")
    rise = {each: fmean(found) for each, found in spikes.items()}
    ends = {each: found[-1] for each, found in curves.items()}
    measured = (
        "When costs and loads change, a tree's share of the random tree's cost rises by: "
        + ", ".join(f"{NAMES[each]} {jump:+.0%}" for each, jump in rise.items())
        + f". At the end: {_said(ends)}."
    )
    followed = all(end.mean < 1.0 for end in ends.values())
    as_said = rise[LMST] > rise[LMIT] and rise[CI] > rise[LMIT] and ends[CI].mean <= ends[LMST].mean + AS_GOOD
    return Finding(_status(followed, as_said), measured)


def judge_slow(summaries: Sequence[Summary]) -> Finding:
    curves = {each: over_time(summaries, f"cost {each}", change=Change.SLOW.value) for each in HEURISTICS}
    if int(curves[CI][-1].case["ticks passed"]) <= DRIFT_TICKS[1]:
        return Finding(Status.OPEN, "The runs are too short to have a change in them.")
    before = {each: found[DRIFT_TICKS[0] // 1_000 - 1] for each, found in curves.items()}
    ends = {each: found[-1] for each, found in curves.items()}
    measured = f"Before costs and loads drift: {_said(before)}; at the end: {_said(ends)}."
    followed = all(ends[each].mean < before[each].mean + 0.1 and ends[each].mean < 1.0 for each in PUBLISHED_ONES)
    return Finding(_status(followed, ends[CI].mean <= ends[LMST].mean + AS_GOOD), measured)


def _status(holds: bool, agrees: bool) -> Status:  # noqa: FBT001 two findings, named where they are made
    if not holds:
        return Status.REFUTED
    return Status.REPRODUCED if agrees else Status.DIFFERS


def at_rest(summaries: Sequence[Summary], heuristic: str) -> float:
    """Exchanges per 1,000 ticks in the last fifth of the run with abrupt changes."""
    curve = over_time(summaries, f"exchanges {heuristic}", change=Change.ABRUPT.value)
    return fmean(point.mean for point in curve[-max(1, len(curve) // 5) :])


def judge_exchanges(summaries: Sequence[Summary]) -> Finding:
    rate = {each: at_rest(summaries, each) for each in HEURISTICS}
    measured = "Exchanges per 1,000 ticks, long after the last change: " + ", ".join(
        f"{NAMES[each]} {count:,.1f}" for each, count in rate.items()
    )
    as_said = rate[LMST] < AT_REST < min(rate[LMIT], rate[CI])
    close = abs(rate[CI] / PUBLISHED_EXCHANGES - 1) < SIMILAR and abs(rate[LMIT] / rate[CI] - 0.5) < 0.2
    return Finding(_status(as_said, close), f"{measured}. Jobs still move: one in 50 ticks.")


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
