"""S1 §5.2–5.4: the cost model, with the paper's own example."""

from random import Random

import pytest

from pleach.core.optimise.cost import Flow, delivery_tree, flow_cost, tree_cost
from pleach.core.overlay.plans.topology import Topology, link
from support.optimise.priced_networks import EXAMPLE, EXAMPLE_FLOWS, drawn_costs, drawn_flows, drawn_tree


@pytest.mark.parametrize(
    ("links", "total"),
    [
        ([("B1", "B2"), ("B1", "B3")], 129),  # (5.5)
        ([("B1", "B2"), ("B2", "B3")], 119),  # (5.6)
        ([("B1", "B3"), ("B2", "B3")], 113),  # (5.7)
    ],
)
def test_the_three_trees_of_section_5_4_3(links, total):
    assert tree_cost(EXAMPLE_FLOWS, Topology.of(links), EXAMPLE) == total


def test_the_delivery_tree_of_section_5_3_1():
    """An event from B2 for B5 alone passes B3 and B4."""
    tree = Topology.of([("B2", "B3"), ("B3", "B4"), ("B4", "B5"), ("B3", "B1"), ("B4", "B6")])
    found = delivery_tree(tree, Flow("B2", frozenset({"B5"})))
    assert found.brokers == {"B2", "B3", "B4", "B5"}
    assert found.links == {("B2", "B3"), ("B3", "B4"), ("B4", "B5")}


def test_an_event_for_its_own_broker_costs_its_processing():
    flow = Flow("B1", frozenset({"B1"}), 3)
    assert flow_cost(flow, Topology.of([("B1", "B2"), ("B1", "B3")]), EXAMPLE) == 15


@pytest.mark.parametrize("seed", range(20))
def test_events_one_by_one_cost_what_their_flow_does_and_counted_hop_by_hop_too(seed):
    draw = Random(seed)
    tree, costs, flows = drawn_tree(draw, 9), drawn_costs(draw, 9), drawn_flows(draw, 9, 12)
    one_by_one = [flow._replace(events=1.0) for flow in flows for _ in range(int(flow.events))]
    walked = sum(_walk(tree, costs, flow, flow.publisher, None) for flow in one_by_one)
    assert tree_cost(flows, tree, costs) == pytest.approx(tree_cost(one_by_one, tree, costs))
    assert walked == pytest.approx(tree_cost(flows, tree, costs))


def _walk(tree, costs, flow, here, before):
    """As brokers forward it: to each neighbour behind which somebody wants it."""
    total = costs.processing[here]
    for there in tree.neighbours(here):
        if there != before and _is_wanted(tree, flow, there, here):
            total += costs.communication[link(here, there)] + _walk(tree, costs, flow, there, here)
    return total


def _is_wanted(tree, flow, here, before):
    return here in flow.subscribers or any(
        _is_wanted(tree, flow, there, here) for there in tree.neighbours(here) if there != before
    )
