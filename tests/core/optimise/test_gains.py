"""What an exchange saves: by gaps of the cycle as by ledgers, and as by the cost of the tree before and after."""

from itertools import combinations
from random import Random

import pytest

from pleach.core.optimise.cost import tree_cost
from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView
from pleach.core.optimise.ledger import gathered_along, savings, stretches
from pleach.core.overlay.plans.cycle import links_on
from support.optimise.priced_networks import drawn_costs, drawn_flows, drawn_tree, kept


def network(seed, count=9):
    draw = Random(seed)
    costs, flows, tree = drawn_costs(draw, count), drawn_flows(draw, count, 12), drawn_tree(draw, count)
    return costs, [flow._replace(events=1.0) for flow in flows], tree


def every_path(tree, priced):
    growth = IndexedTree(tree, priced.names)
    for a, b in combinations(range(len(priced.names)), 2):
        if b not in growth.around[a]:
            view = TreeView(growth, a, priced)
            yield view, view.path(b)


@pytest.mark.parametrize("seed", range(6))
def test_gains_are_those_of_the_ledgers(seed):
    costs, flows, tree = network(seed)
    priced = IndexedFlows.of(flows, costs)
    ledgers = kept(tree, {str(number): flow for number, flow in enumerate(flows)})
    for view, path in every_path(tree, priced):
        named = [priced.names[broker] for broker in path]
        touches = gathered_along(named, [ledgers[name] for name in named])
        expected = savings(named, stretches(touches), costs)
        gains = dict(zip(links_on(tuple(named)), view.gains(path), strict=True))
        assert gains == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_a_gain_is_what_the_tree_costs_less(seed):
    costs, flows, tree = network(seed)
    priced = IndexedFlows.of(flows, costs)
    before = tree_cost(flows, tree, costs)
    for view, path in every_path(tree, priced):
        for place, gain in enumerate(view.gains(path)):
            growth = IndexedTree(tree, priced.names)
            growth.exchange(LinkMove(gain, path, place))
            after = growth.topology(priced.names)
            assert before - tree_cost(flows, after, costs) == pytest.approx(gain, abs=1e-9)


def test_excess_is_counted_at_the_ends_of_both_links():
    """A star of four; its centre loses a link and a leaf gets one."""
    costs, _, _ = network(0, 5)
    names = costs.brokers
    star = IndexedTree(drawn_tree(Random(0), 5), names)
    star.around = [[1, 2, 3, 4], [0], [0], [0], [0]]
    assert star.more_excess((1, 0, 2), 0, 3) == -1  # 1–0 goes, 1–2 comes: 0 has three neighbours left
    assert star.more_excess((1, 0, 2), 0, 1) == -1 + 1  # now 2 has one too many
