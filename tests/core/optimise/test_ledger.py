"""What ledgers say an exchange saves is what it saves: to the last digit, whatever tree, events and link."""

from random import Random

import pytest

from pleach.core.optimise.cost import Flow, tree_cost
from pleach.core.overlay.plans.topology import Topology, link
from support.optimise.ledgers import gathered_along, savings, stretches
from support.optimise.priced_networks import drawn_costs, drawn_flows, drawn_tree, kept


def drawn(seed):
    draw = Random(seed)
    tree, costs = drawn_tree(draw, 10), drawn_costs(draw, 10)
    events = {f"e{i}": flow._replace(events=1.0) for i, flow in enumerate(drawn_flows(draw, 10, 30))}
    pairs = [(a, b) for a in tree.brokers for b in tree.brokers if len(tree.path(a, b)) > 2]
    return draw, tree, costs, events, tree.path(*draw.choice(pairs))


@pytest.mark.parametrize("seed", range(60))
def test_what_each_exchange_saves_is_known_before_it_is_made(seed):
    _, tree, costs, events, path = drawn(seed)
    ledgers = kept(tree, events)
    saved = savings(path, stretches(gathered_along(path, [ledgers[b] for b in path])), costs)
    before = tree_cost(events.values(), tree, costs)
    assert len(saved) == len(path) - 1
    for removed, gain in saved.items():
        after = tree_cost(events.values(), exchanged(tree, removed, link(path[0], path[-1])), costs)
        assert gain == pytest.approx(before - after)


def exchanged(tree, removed, added):
    return Topology.of([*(each for each in tree.links if each != removed), added])


def test_a_broker_in_between_that_nobody_asked_is_what_a_direct_link_saves():
    costs = drawn_costs(Random(0), 3)
    tree = Topology.of([("b0", "b1"), ("b1", "b2")])
    ledgers = kept(tree, {"e": Flow("b0", frozenset({"b2"}))})
    path = tree.path("b0", "b2")
    found = stretches(gathered_along(path, [ledgers[b] for b in path]))
    assert found == [({0, 2}, 1)]
    saved = savings(path, found, costs)
    around = costs.of_link("b0", "b1") + costs.processing["b1"] + costs.of_link("b1", "b2")
    assert saved["b0", "b1"] == pytest.approx(around - costs.of_link("b0", "b2"))
