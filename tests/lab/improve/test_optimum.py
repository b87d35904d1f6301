"""The exact optimum: all trees are there, and none is cheaper."""

from random import Random

import pytest

from pleach.core.optimise.cost import tree_cost
from pleach.core.optimise.reference import maximum_interest_tree, minimum_spanning_tree
from pleach.core.overlay.plans.topology import Topology
from pleach.lab.improve.optimum import all_trees, cheapest_tree
from support.optimise.priced_networks import EXAMPLE, EXAMPLE_FLOWS, drawn_costs, drawn_flows, drawn_tree


@pytest.mark.parametrize(("brokers", "count"), [(3, 3), (4, 16), (5, 125), (6, 1296)])
def test_all_trees_are_there_once(brokers, count):
    """Cayley: n^(n-2)."""
    trees = all_trees(brokers)
    found = {
        Topology.of((f"b{a}", f"b{b}") for a, b in zip(leaf, rest, strict=True))
        for leaf, rest in zip(trees.leaf, trees.rest, strict=True)
    }
    assert len(trees.leaf) == len(found) == count


def test_the_best_tree_of_section_5_4_3():
    assert cheapest_tree(EXAMPLE_FLOWS, EXAMPLE).links == (("B1", "B3"), ("B2", "B3"))


@pytest.mark.parametrize("seed", range(4))
def test_no_other_tree_is_cheaper(seed):
    draw = Random(seed)
    costs, flows = drawn_costs(draw, 8), drawn_flows(draw, 8, 10)
    least = tree_cost(flows, cheapest_tree(flows, costs), costs)
    others = [
        minimum_spanning_tree(costs),
        maximum_interest_tree(flows, costs.brokers),
        *(drawn_tree(draw, 8) for _ in range(50)),
    ]
    assert least <= min(tree_cost(flows, tree, costs) for tree in others) + 1e-9


def test_it_finds_what_a_search_over_all_trees_of_five_brokers_finds():
    draw = Random(11)
    costs, flows = drawn_costs(draw, 5), drawn_flows(draw, 5, 6)
    trees, brokers = all_trees(5), costs.brokers
    every = [
        Topology.of((brokers[a], brokers[b]) for a, b in zip(leaf, rest, strict=True))
        for leaf, rest in zip(trees.leaf, trees.rest, strict=True)
    ]
    found = tree_cost(flows, cheapest_tree(flows, costs), costs)
    assert found == pytest.approx(min(tree_cost(flows, tree, costs) for tree in every))
