"""The planner against the heuristics, in the setting of S1 §5.6 with fixed jobs: the cost of one tree for all traffic.

The search is that of `pleach overlay plan`, one task per start. Heuristics have no limit on neighbours, so the planner
has none in the comparison; the cost of a limit is reported as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from pleach.core.optimise.reference import lower_bound
from pleach.core.optimise.search import Problem, SearchEnd, SearchTask, best_of, searched
from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.contenders import MIT, MST, TreeBenchmark, costs_of, final_trees, named_tree, numbered_tree
from pleach.lab.improve.course import HEURISTICS, setting_of, sized
from pleach.lab.improve.rounds import STATIC
from pleach.lab.improve.setting import Setting
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import Tree, degrees
from pleach.spark.planner.options import DEGREE_MAX

PLANNED, LIMITED = "planner", "limited"
OTHERS = (STATIC, MIT, MST, *HEURISTICS)
ROWS = (*OTHERS, LIMITED, PLANNED)
STARTS = {Size.QUICK: 4, Size.USUAL: 4, Size.FULL: 16}  # four of them are trees that others would choose
ROUNDING = 1.0 + 1e-9


def cases(size: Size) -> list[Case]:
    return [{**sized(size), "starts": STARTS[size]}]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Costs are those of all events of the run, beside every event on a tree of its own."""
    setting = setting_of(case, reassignment_interval=0.0)
    benchmark = TreeBenchmark.of(setting, seed)
    bound = lower_bound(benchmark.named_flows(), costs_of(traffic_of(setting, seed).eras[0]))
    trees = final_trees(setting, seed)
    ends = {
        name: searched_all(setting, seed, trees[STATIC], limit, int(case["starts"]))
        for name, limit in ((PLANNED, setting.brokers), (LIMITED, DEGREE_MAX))
    }
    trees |= {name: numbered_tree(best_of(end.found for end in found).tree) for name, found in ends.items()}
    cost = {name: benchmark.cost(tree) for name, tree in trees.items()}
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


def searched_all(setting: Setting, seed: int, current: Tree, degree_max: int, starts: int) -> list[SearchEnd]:
    """What the planner's executors would do."""
    costs = costs_of(traffic_of(setting, seed).eras[0])
    problem = Problem(TreeBenchmark.of(setting, seed).named_flows(), costs, degree_max)
    task = SearchTask(problem, named_tree(current), seed)
    return [searched(task, number) for number in range(starts)]
