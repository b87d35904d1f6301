"""The planner beside the heuristics, in the setting of S1 §5.6 where jobs stay: what one tree for all traffic can cost.

The search is the one that `pleach overlay plan` spreads over executors, start by start. Heuristics have no limit on
neighbours, so that the planner has none either where it is compared; beside it stands what a limit costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, Table, select
from pleach.lab.improve.contenders import MIT, MST, Ground, final_trees, named_tree, numbered_tree
from pleach.lab.improve.course import HEURISTICS, NAMES, over_time, setting_of, sized
from pleach.lab.improve.rounds import STATIC
from pleach.lab.improve.setting import Setting
from pleach.lab.improve.single_events import costs_of
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import Tree, degrees
from pleach.lab.look import curve
from pleach.optimise.reference import lower_bound
from pleach.optimise.search import Problem, best_of
from pleach.optimise.tasks import End, Task, searched
from pleach.spark.planner.wish import DEGREE_MAX

PLANNED, LIMITED = "planner", "limited"
OTHERS = (STATIC, MIT, MST, *HEURISTICS)
ROWS = (*OTHERS, LIMITED, PLANNED)
TITLES = {
    **NAMES,
    MST: "MST (global)",
    MIT: "MIT (global)",
    LIMITED: f"planner, at most {DEGREE_MAX} neighbours",
    PLANNED: "planner",
}
STARTS = {Size.QUICK: 4, Size.USUAL: 4, Size.FULL: 16}  # four of them are trees that others would choose
ROUNDING = 1.0 + 1e-9


def cases(size: Size) -> list[Case]:
    return [{**sized(size), "starts": STARTS[size]}]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Costs are those of all events of the run, beside every event on a tree of its own."""
    setting = setting_of(case, reassignment_interval=0.0)
    ground = Ground.of(setting, seed)
    bound = lower_bound(ground.named_flows(), costs_of(traffic_of(setting, seed).eras[0]))
    trees = final_trees(setting, seed)
    ends = {
        name: searched_all(setting, seed, trees[STATIC], limit, int(case["starts"]))
        for name, limit in ((PLANNED, setting.brokers), (LIMITED, DEGREE_MAX))
    }
    trees |= {name: numbered_tree(best_of(end.found for end in found).tree) for name, found in ends.items()}
    cost = {name: ground.cost(tree) for name, tree in trees.items()}
    for name in ROWS:
        yield Sample(f"beside the bound {name}", cost[name] / bound)
        yield Sample(f"beside the random tree {name}", cost[name] / cost[STATIC])
        yield Sample(f"neighbours {name}", max(degrees(trees[name])))
    best = min(cost[name] for name in OTHERS)
    for name, found in ends.items():
        yield Sample(f"beside the best {name}", cost[name] / best)
        yield Sample(f"at most the best {name}", float(cost[name] <= best * ROUNDING))
        for starts, least in enumerate(accumulate((end.found.rank.cost for end in found), min), start=1):
            yield Sample(f"so far {name} {starts}", least / bound)


def searched_all(setting: Setting, seed: int, current: Tree, degree_max: int, starts: int) -> list[End]:
    """What the planner's executors would do."""
    costs = costs_of(traffic_of(setting, seed).eras[0])
    problem = Problem(Ground.of(setting, seed).named_flows(), costs, degree_max)
    task = Task(problem, named_tree(current), seed)
    return [searched(task, number) for number in range(starts)]


# Reading --------------------------------------------------------------------------------------------------------


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    bars, starts = axes
    points = [_of(summaries, f"beside the bound {name}") for name in ROWS]
    spread = [[p.mean - p.low for p in points], [p.high - p.mean for p in points]]
    bars.barh([TITLES[name] for name in ROWS], [p.mean for p in points], xerr=spread, ecolor="#444444")
    bars.invert_yaxis()
    bars.axvline(1.0, color="#444444", linewidth=0.8, marker="", linestyle="-")
    bars.grid(visible=False, axis="y")
    bars.set_xlabel("own tree for each event = 1")
    for name in (LIMITED, PLANNED):
        curve(starts, over_time(summaries, f"so far {name}", axis="starts made"), "starts made", TITLES[name])
    starts.set_xlabel("starts of the search")
    starts.set_ylim(bottom=1.0)
    starts.legend()


def write_table(summaries: Sequence[Summary]) -> str:
    lines = [
        "| tree | cost, own tree for each event = 1 | worst seed | random tree = 100% | most neighbours |",
        "|---|---|---|---|---|",
    ]
    for name in ROWS:
        bound, share = (_of(summaries, f"beside the {what} {name}") for what in ("bound", "random tree"))
        most = _of(summaries, f"neighbours {name}").maximum
        lines.append(f"| {TITLES[name]} | {bound.mean:.3f} | {bound.maximum:.3f} | {share.mean:.1%} | {most:.0f} |")
    return "\n".join(lines)


def judge(summaries: Sequence[Summary]) -> Finding:
    bound = _of(summaries, f"beside the bound {PLANNED}")
    measured = (
        f"{_against_the_best(summaries, PLANNED)}. It costs {bound.mean:.2f} times the bound ({bound.minimum:.2f} to"
        f" {bound.maximum:.2f}). With at most {DEGREE_MAX} neighbours {_against_the_best(summaries, LIMITED, 'it is')}"
    )
    is_never_dearer = _of(summaries, f"at most the best {PLANNED}").minimum == 1.0
    return Finding(Status.REPRODUCED if is_never_dearer else Status.REFUTED, f"{measured}.")


def _against_the_best(summaries: Sequence[Summary], name: str, begin: str = "The planner's tree is") -> str:
    hits, ratio = _of(summaries, f"at most the best {name}"), _of(summaries, f"beside the best {name}")
    return (
        f"{begin} at most as dear as the best of all others on {hits.mean * hits.seeds:.0f} of {hits.seeds} seeds:"
        f" {ratio.mean:.1%} of its cost on average, {ratio.maximum:.1%} at most"
    )


def _of(summaries: Sequence[Summary], metric: str) -> Summary:
    (found,) = select(summaries, metric)
    return found


PUBLISHED = (
    "S1 compares with the cost of every event on a minimum spanning tree of its own, and leaves open how near one tree"
    " can come. Wanted of a planner that knows all traffic: on every seed a tree at most as dear as the best"
    " heuristic's."
)
PLANNER = Experiment(
    name="planner",
    about="the planner's tree beside the heuristics' and the lower bound, on every seed: S1 §5.6",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 10, Size.FULL: 50},
    measure=measure,
    figures=(Figure("s1-planner", "S1 §5.6", "A planner beside heuristics", PUBLISHED, draw, judge, panels=2),),
    tables=(Table("s1-planner-table", "S1 §5.6", "A planner beside heuristics: costs", PUBLISHED, write_table, judge),),
)
