"""Figures and findings of the measurements of `settling.py`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pleach.lab.beyond.settling import ROWS, cases, measure, measure_small, small_cases
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.figure_style import percent
from pleach.lab.findings import Condition, Finding, aimed, judged
from pleach.lab.improve.contenders import MIT, MST
from pleach.lab.improve.course import (
    CI,
    NAMES,
    SEEDS,
    SETTLING,
    at_the_end,
    draw_over_time,
    over_time,
)
from pleach.lab.improve.rounds import STATIC
from pleach.lab.s1.chapter5.course_figures import hub
from pleach.lab.trends import are_told_apart, as_told

AT_REST = 1.0  # exchanges per 1,000 ticks and 100 brokers
SETTLED_AFTER = 0.5  # of the run
COMPARED = (CI, SETTLING)
TITLES = {**NAMES, MST: "MST (global)", MIT: "MIT (global)"}


def late_exchanges(summaries: Sequence[Summary], heuristic: str) -> float:
    curve = over_time(summaries, f"exchanges {heuristic}")
    return fmean(point.mean for point in curve[int(SETTLED_AFTER * len(curve)) :])


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    draw_over_time(axes[0], summaries, "exchanges")
    axes[0].set_yscale("symlog", linthresh=1.0)
    axes[0].set_ylabel("exchanges per 1,000 ticks")
    draw_over_time(axes[1], summaries, "all costs")
    axes[1].yaxis.set_major_formatter(percent)
    axes[1].set_ylabel("all costs, random tree = 100%")
    axes[1].legend()


def judge(summaries: Sequence[Summary]) -> Finding:
    rate = {each: late_exchanges(summaries, each) for each in COMPARED}
    forwarding, everything = (
        {each: at_the_end(summaries, f"{what} {each}") for each in COMPARED} for what in ("cost", "all costs")
    )
    measured = "In the second half of the runs: " + "; ".join(
        f"{NAMES[each]} exchanges {rate[each]:.2f} links per 1,000 ticks and costs {forwarding[each].mean:.0%} of the"
        f" random tree, {everything[each].mean:.0%} with its own messages"
        for each in COMPARED
    )
    return aimed(
        f"{measured}.{hub(summaries)}",
        Condition("at most one exchange per 1,000 ticks and 100 brokers", rate[SETTLING] <= AT_REST),
        _is_no_dearer(everything[SETTLING], everything[CI]),
    )


def _is_no_dearer(ours: Summary, theirs: Summary) -> Condition:
    holds = ours.mean <= theirs.mean or (False if are_told_apart(ours, theirs) else None)
    return as_told("no higher cost than CI", holds, ours, theirs)


# Beside the optimum -----------------------------------------------------------------------------------------------


def write_table(summaries: Sequence[Summary]) -> str:
    lines = ["| tree | cost beside the optimum | 95% of seeds below | worst | optimal |", "|---|---|---|---|---|"]
    for name in ROWS:
        (ratio,), (hit,) = select(summaries, f"ratio {name}"), select(summaries, f"optimal {name}")
        lines.append(f"| {TITLES[name]} | {ratio.mean:.3f} | {ratio.p95:.3f} | {ratio.maximum:.3f} | {hit.mean:.0%} |")
    return "\n".join(lines)


def judge_table(summaries: Sequence[Summary]) -> Finding:
    ratio = {name: select(summaries, f"ratio {name}")[0] for name in ROWS}
    measured = "Cost beside the optimum: " + ", ".join(f"{TITLES[name]} {ratio[name].mean:.2f}" for name in ROWS)
    holds = ratio[CI].mean < min(ratio[STATIC].mean, ratio[MST].mean, ratio[MIT].mean)
    return judged(f"{measured}.", besides=[Condition("CI is closer than MST, MIT and the random tree", holds)])


SETTLES = Experiment(
    name="settling",
    about="when nothing changes, does a heuristic come to rest, and at what cost: open in S1 §5.8",
    cases=cases,
    seeds=SEEDS,
    measure=measure,
    figures=(
        Figure(
            "s1-settling",
            "S1 §5.8",
            "A CI that settles",
            "Open in S1: CI and ℓMIT never reach a stable tree. Wanted: at most one exchange per 1,000 ticks and 100"
            " brokers once nothing changes, at no higher cost than CI.",
            draw,
            judge,
            panels=2,
        ),
    ),
)

OPTIMUM = Experiment(
    name="optimum",
    about="heuristics beside the cheapest of all 262,144 trees of 8 brokers",
    cases=small_cases,
    seeds={Size.QUICK: 3, Size.USUAL: 40, Size.FULL: 200},
    measure=measure_small,
    figures=(),
    tables=(
        ResultTable(
            "s1-optimum",
            "S1 §5.3, §5.4",
            "Heuristics beside the optimum, 8 brokers",
            "Finding the best tree is NP-hard; MST and MIT miss it in general (example of §5.4.3), and CI, which weighs"
            " both costs, is meant to come closer. (No figures in the text.)",
            write_table,
            judge_table,
        ),
    ),
)
