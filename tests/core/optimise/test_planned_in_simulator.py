"""A plan is carried out under load: nothing is lost, the tree comes out as planned, and costs what was foretold."""

import pytest

from pleach.core.optimise.cost import delivery_tree, tree_cost
from pleach.core.optimise.exchange_order import ExchangeOrder
from pleach.core.optimise.search import Problem, best_of, found_from, start_tree
from pleach.core.overlay.plans import Topology
from pleach.sim.run import run_scenario
from pleach.trace import judge
from support.optimise.priced_networks import draws
from support.optimise.zoned_scenario import CHAIN, SETTLED_AT, flows_by_hand, forwarded, homes_of, prices, scenario

DEGREE_MAX = 3


@pytest.fixture(scope="module")
def before():
    return run_scenario(scenario(), 1)


@pytest.fixture(scope="module")
def order(before):
    tree = Topology.of(before.scenario.links)
    flows = flows_by_hand(before.records, homes_of(before.scenario))
    problem = Problem(flows, prices().costs(tree.brokers), DEGREE_MAX)
    streams = [draws(number) for number in range(6)]
    ends = [
        found_from(start_tree(number, tree, problem, stream), problem, stream) for number, stream in enumerate(streams)
    ]
    return ExchangeOrder.of(tree, best_of(ends).tree, problem, exchanges_max=10)


def test_the_model_counts_the_hops_that_events_take(before):
    """Between brokers one `Forward` per event and link: what delivery trees say."""
    tree = Topology.of(before.scenario.links)
    expected = {}
    for flow in flows_by_hand(before.records, homes_of(before.scenario)):
        for link in delivery_tree(tree, flow).links:
            expected[link] = expected.get(link, 0) + flow.events
    assert forwarded(before.records) == expected


def test_the_plan_applies_cleanly_and_lowers_the_cost(before, order):
    plan = [(exchange.remove, exchange.add) for exchange in order.exchanges]
    trees = []
    run = run_scenario(
        scenario(plan, "zones, replanned"),
        1,
        watch=lambda brokers: trees.append(
            Topology.of((a, b) for a in brokers for b in brokers[a].router.neighbours if a < b)
        ),
    )
    assert judge(run.records).clean
    assert run.refusals == ()
    assert trees[-1] == order.end
    assert order.end != order.start
    assert max(map(len, order.end.around.values())) <= DEGREE_MAX
    assert _spent(run, SETTLED_AT) < 0.6 * _spent(before, SETTLED_AT)


def _spent(run, since):
    """Measured: what links carried, by what they cost."""
    costs = prices().costs(CHAIN)
    return sum(count * costs.communication[link] for link, count in forwarded(run.records, since=since).items())


def test_the_saving_is_what_was_foretold(before, order):
    flows = flows_by_hand(before.records, homes_of(before.scenario))
    costs = prices().costs(CHAIN)
    foretold = tree_cost(flows, order.start, costs) - tree_cost(flows, order.end, costs)
    assert order.saving == pytest.approx(foretold)
    assert order.saving > 0.4 * order.rank.cost
