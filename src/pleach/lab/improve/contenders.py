"""The final trees of all heuristics for one seed with constant costs, and the costs of trees for its events."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from pleach.core.optimise import cost
from pleach.core.optimise.cost import Flow
from pleach.core.overlay.plans.topology import Topology, link
from pleach.lab.improve.course import HEURISTICS
from pleach.lab.improve.rounds import STATIC, Tuning, simulate
from pleach.lab.improve.setting import Costs, Era, Floats, Setting
from pleach.lab.improve.traffic import Flows, traffic_of
from pleach.lab.improve.trees import Tree, flow_costs, spanning_tree

MST, MIT = "mst", "mit"


class TreeBenchmark(NamedTuple):
    """The flows and costs by which trees are compared."""

    flows: Flows
    costs: Costs

    @classmethod
    def of(cls, setting: Setting, seed: int) -> TreeBenchmark:
        traffic = traffic_of(setting, seed)
        return cls(traffic.between(0, setting.slots), traffic.eras[0].costs)

    def cost(self, tree: Tree) -> float:
        return float(flow_costs(tree, self.flows, self.costs) @ self.flows.events)

    def named_flows(self) -> tuple[Flow, ...]:
        """The publisher is the first member of each."""
        return tuple(
            Flow(name_of(members[0]), frozenset(map(name_of, members[1:])), float(events))
            for members, events in zip(self.flows.members.tolist(), self.flows.events, strict=True)
        )


def final_trees(setting: Setting, seed: int) -> dict[str, Tree]:
    """Of the random tree, of all heuristics, and of MST and MIT."""
    benchmark, everyone = TreeBenchmark.of(setting, seed), range(setting.brokers)
    trees = {name: simulate(setting, seed, Tuning(name)).tree for name in (STATIC, *HEURISTICS)}
    trees[MST] = Tree(setting.brokers, spanning_tree(benchmark.costs.communication, everyone))
    trees[MIT] = Tree(setting.brokers, spanning_tree(-_shared(setting.brokers, benchmark.flows), everyone))
    return trees


def _shared(count: int, flows: Flows) -> Floats:
    shared = np.zeros((count, count))
    for members, events in zip(flows.members, flows.events, strict=True):
        shared[np.ix_(members, members)] += events
    return shared


def name_of(broker: int) -> str:
    return f"b{broker:03d}"  # sorts in the order of numbers


def costs_of(era: Era) -> cost.Costs:
    count = len(era.costs.processing)
    return cost.Costs(
        {name_of(i): float(era.costs.processing[i]) for i in range(count)},
        {link(name_of(i), name_of(j)): float(era.costs.communication[i, j]) for i, j in combinations(range(count), 2)},
    )


def named_tree(tree: Tree) -> Topology:
    return Topology.of((name_of(a), name_of(b)) for a, b in tree.links)


def numbered_tree(tree: Topology) -> Tree:
    """Names sort in the order of numbers."""
    number = {name: i for i, name in enumerate(tree.brokers)}
    return Tree(len(number), [(number[a], number[b]) for a, b in tree.links])
