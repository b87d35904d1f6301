"""A CI that settles: when nothing changes, it comes to rest, at no higher cost (open in S1 §5.8). And how far
heuristics are from the best tree there is, on networks small enough to know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, Table, select
from pleach.lab.improve.contenders import MIT, MST, Ground, final_trees, numbered_tree
from pleach.lab.improve.course import (
    CI,
    HEURISTICS,
    NAMES,
    SEEDS,
    SETTLING,
    SMALL_NETWORK,
    at_the_end,
    course,
    draw_over_time,
    over_time,
    setting_of,
    sized,
)
from pleach.lab.improve.optimum import cheapest_tree
from pleach.lab.improve.rounds import STATIC
from pleach.lab.improve.setting import Setting
from pleach.lab.improve.single_events import costs_of
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.scales import percent
from pleach.lab.trends import are_told_apart

AT_REST = 1.0  # exchanges per 1,000 ticks and 100 brokers
SETTLED_AFTER = 0.5  # of the run
COMPARED = (CI, SETTLING)


def cases(size: Size) -> list[Case]:
    return [sized(size)]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Jobs stay where they are."""
    return course(setting_of(case, reassignment_interval=0.0), seed)


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
    dearer = everything[SETTLING].mean > everything[CI].mean
    if rate[SETTLING] > AT_REST or (dearer and are_told_apart(*everything.values())):
        return Finding(Status.REFUTED, f"{measured}.")
    return Finding(Status.OPEN if dearer else Status.REPRODUCED, f"{measured}.")


# Beside the optimum -----------------------------------------------------------------------------------------------

SMALL = Setting(brokers=8, jobs=10, subscribers=3, reassignment_interval=0.0, network=SMALL_NETWORK)
SMALL_TICKS = {Size.QUICK: 4_000, Size.USUAL: 10_000, Size.FULL: 10_000}
ROWS = (STATIC, MIT, MST, *HEURISTICS)
TITLES = {**NAMES, MST: "MST (global)", MIT: "MIT (global)"}
OPTIMAL = 1.0 + 1e-9


def small_cases(size: Size) -> list[Case]:
    return [{"brokers": SMALL.brokers, "ticks": SMALL_TICKS[size]}]


def measure_small(case: Case, seed: int) -> Iterator[Sample]:
    """What each tree costs at the end, for all events of the run, beside the cheapest of all trees."""
    setting = Setting(
        SMALL.brokers,
        SMALL.jobs,
        SMALL.subscribers,
        reassignment_interval=0.0,
        ticks=int(case["ticks"]),
        network=SMALL.network,
    )
    ground = Ground.of(setting, seed)
    costs = costs_of(traffic_of(setting, seed).eras[0])
    least = ground.cost(numbered_tree(cheapest_tree(ground.named_flows(), costs)))
    for name, tree in final_trees(setting, seed).items():
        ratio = ground.cost(tree) / least
        yield Sample(f"ratio {name}", ratio)
        yield Sample(f"optimal {name}", float(ratio <= OPTIMAL))


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
    return Finding(Status.REPRODUCED if holds else Status.DIFFERS, f"{measured}.")


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
        Table(
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
