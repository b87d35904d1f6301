"""What stands in for a link: the best of all exchanges that remove it, as cycles tell what those save."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.optimise.gains import IndexedFlows, IndexedTree, TreeView
from pleach.core.optimise.replacement import Demand, Weights, best_replacement
from pleach.core.overlay.plans.topology import link
from support.optimise.priced_networks import drawn_costs, drawn_flows, drawn_tree
from support.thorough import FACTOR

EXAMPLES = 40 * FACTOR
NO_LIMIT = 99


def network(seed, count, flows=12):
    draw = Random(seed)
    priced = IndexedFlows.of(drawn_flows(draw, count, flows), drawn_costs(draw, count))
    return IndexedTree(drawn_tree(draw, count), priced.names), priced


def by_cycles(growth, priced, degree_max):
    """For each link of the tree: what any other one in its place relieves and saves."""
    found = {gone: [] for gone in growth.links}
    for root in range(len(priced.names)):
        view = TreeView(growth, root, priced)
        for end in range(root):
            if end in growth.around[root]:
                continue
            path = view.path(end)
            for place, gain in enumerate(view.gains(path)):
                relief = -growth.more_excess(path, place, degree_max)
                found[link(path[place], path[place + 1])].append((relief, gain, (end, root)))
    return found


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(4, 10), degree_max=st.sampled_from([2, 3, NO_LIMIT]))
def test_it_is_the_best_of_all_exchanges(seed, count, degree_max):
    growth, priced = network(seed, count)
    demand = Demand.of(priced)
    for gone, others in by_cycles(growth, priced, degree_max).items():
        relief, gain, _ = max(others)
        found = best_replacement(growth, gone, demand, degree_max, least=1e-9)
        if relief > 0 or (relief == 0 and gain > 1e-6):
            assert found is not None
            assert (found.relief, found.gain) == pytest.approx((relief, gain))
            told = {new: (relieved, saved) for relieved, saved, new in others}
            assert told[link(*found.new)] == pytest.approx((found.relief, found.gain))
        else:
            assert found is None or found.gain == pytest.approx(0.0, abs=1e-6)


def test_where_nothing_is_better_there_is_none():
    growth, priced = network(3, 8)
    demand = Demand.of(priced)
    assert all(best_replacement(growth, gone, demand, NO_LIMIT, least=1e9) is None for gone in growth.links)


def test_a_link_that_no_event_crosses_gains_nothing_by_another():
    growth, priced = network(1, 6, flows=0)
    found = best_replacement(growth, growth.links[0], Demand.of(priced), NO_LIMIT, least=-1.0)
    assert found is not None
    assert found.gain == 0.0


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 2**30 - 1))
def test_flows_are_weighed_together(events, flows):
    flows &= (1 << len(events)) - 1
    assert Weights(events).of(flows) == sum(each for i, each in enumerate(events) if flows >> i & 1)
