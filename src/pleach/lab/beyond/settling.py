"""A CI that settles: when nothing changes, it comes to rest, at no higher cost (open in S1 §5.8). And how far
heuristics are from the best tree there is, on networks small enough to know it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.contenders import MIT, MST, Ground, final_trees, numbered_tree
from pleach.lab.improve.course import HEURISTICS, SMALL_NETWORK, course, setting_of, sized
from pleach.lab.improve.optimum import cheapest_tree
from pleach.lab.improve.rounds import STATIC
from pleach.lab.improve.setting import Setting
from pleach.lab.improve.single_events import costs_of
from pleach.lab.improve.traffic import traffic_of


def cases(size: Size) -> list[Case]:
    return [sized(size)]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Jobs stay where they are."""
    return course(setting_of(case, reassignment_interval=0.0), seed)


# Beside the optimum -----------------------------------------------------------------------------------------------

SMALL = Setting(brokers=8, jobs=10, subscribers=3, reassignment_interval=0.0, network=SMALL_NETWORK)
SMALL_TICKS = {Size.QUICK: 4_000, Size.USUAL: 10_000, Size.FULL: 10_000}
ROWS = (STATIC, MIT, MST, *HEURISTICS)
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
