"""S1 §5.4, §5.6: spanning trees with global knowledge, and the bound that is none."""

from itertools import combinations
from random import Random

import pytest

from pleach.core.optimise.cost import Costs, Flow, tree_cost
from pleach.core.optimise.reference import common_traffic, lower_bound, maximum_interest_tree, minimum_spanning_tree
from pleach.core.overlay.plans.topology import Topology, link
from pleach.lab.improve.optimum import all_trees
from support.optimise.priced_networks import EXAMPLE, EXAMPLE_FLOWS, drawn_costs, drawn_flows, names


def test_the_spanning_trees_of_section_5_4_3():
    """MST leaves the dearest link out, MIT the one with the least in common."""
    assert minimum_spanning_tree(EXAMPLE).links == (("B1", "B2"), ("B1", "B3"))
    assert common_traffic(EXAMPLE_FLOWS, EXAMPLE.brokers) == {("B1", "B2"): 6, ("B1", "B3"): 5, ("B2", "B3"): 10}
    assert maximum_interest_tree(EXAMPLE_FLOWS, EXAMPLE.brokers).links == (("B1", "B2"), ("B2", "B3"))


@pytest.mark.parametrize("seed", range(5))
def test_no_tree_is_lighter_than_the_minimum_spanning_tree(seed):
    costs = drawn_costs(Random(seed), 6)
    trees, brokers = all_trees(6), names(6)
    weights = [
        sum(costs.of_link(brokers[a], brokers[b]) for a, b in zip(leaf, rest, strict=True))
        for leaf, rest in zip(trees.leaf, trees.rest, strict=True)
    ]
    found = sum(costs.communication[each] for each in minimum_spanning_tree(costs).links)
    assert found == pytest.approx(min(weights))


def test_the_lower_bound_of_section_5_6_is_none():
    """Three brokers around a fourth that costs nothing: the star over it is cheaper than the bound."""
    costs = Costs(
        {"a": 1.0, "b": 1.0, "c": 1.0, "hub": 0.0},
        {link(x, y): 1.0 if "hub" in (x, y) else 2.0 for x, y in combinations(("a", "b", "c", "hub"), 2)},
    )
    flows = [Flow("a", frozenset({"b", "c"}))]
    star = Topology.of([("a", "hub"), ("b", "hub"), ("c", "hub")])
    assert lower_bound(flows, costs) == 3 + 4
    assert tree_cost(flows, star, costs) == 3 + 3


def test_one_event_alone_costs_its_bound_on_its_own_tree():
    draw = Random(3)
    costs = drawn_costs(draw, 8)
    for flow in drawn_flows(draw, 8, 10):
        own = Costs({v: costs.processing[v] for v in flow.members}, costs.communication)
        assert tree_cost([flow], minimum_spanning_tree(own), costs) == pytest.approx(lower_bound([flow], costs))
