"""When a tree is changed: only where it saves enough, surely, and more than it costs; and an end comes."""

from dataclasses import replace
from random import Random

import pytest

from pleach.core.optimise.cost import Costs, Flow, tree_cost
from pleach.core.optimise.exchange_order import ExchangeOrder
from pleach.core.optimise.improvement import ImproveVerdict, Rules, cost_of_change, deviation, proposed, trimmed
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import Problem, SearchTask, searched
from pleach.core.optimise.sightings import TrafficSample
from pleach.core.overlay.plans import Topology
from support.optimise.priced_networks import drawn_costs, drawn_flows, drawn_tree
from support.thorough import FACTOR

CHAIN = Topology.of([("a", "b"), ("b", "c"), ("c", "d")])
BROKERS = 8
STARTS = 3


def asked(tree, pick, costs, rules=None, *, leave=10, starts=STARTS):
    rules = rules or Rules()
    task = SearchTask(rules.problem(pick, tree, costs), tree, 1)
    return proposed(task, [searched(task, number) for number in range(starts)], pick, rules, leave=leave)


def pick_of(*flows, one_in=1):
    return TrafficSample(
        tuple(Flow(publisher, frozenset(others), events) for publisher, others, events in flows), one_in
    )


def hops():
    return Prices().costs("abcd")


@pytest.mark.parametrize("seed", range(10 * FACTOR))
def test_with_steady_traffic_an_end_comes_and_costs_only_fall(seed):
    draw = Random(seed)
    costs, tree = drawn_costs(draw, BROKERS), drawn_tree(draw, BROKERS)
    flows = tuple(flow._replace(events=100.0 * flow.events) for flow in drawn_flows(draw, BROKERS, 10))
    rules = Rules(saving_min=0.02, degree_max=4)
    spent = [tree_cost(flows, tree, costs)]
    for _ in range(60):
        found = asked(tree, TrafficSample(flows, 1), costs, rules, leave=2)
        if not found.is_worth_it:
            break
        assert 1 <= len(found.order.exchanges) <= 2
        tree = found.order.end
        spent.append(tree_cost(flows, tree, costs))
    assert found.verdict in {ImproveVerdict.BEST, ImproveVerdict.LITTLE, ImproveVerdict.LIMIT}
    assert spent == sorted(spent, reverse=True)
    assert found.cost_then <= found.cost_now


def test_far_traffic_gets_a_link_of_its_own():
    found = asked(CHAIN, pick_of(("a", "d", 100.0), ("b", "c", 20.0)), hops())
    assert found.verdict is ImproveVerdict.IMPROVE
    assert found.order.end.has_link("a", "d")
    assert found.cost_now == pytest.approx(320 / 120)
    assert found.cost_then == pytest.approx(1.0)
    assert found.share_saved == pytest.approx(200 / 320)


def test_nothing_that_goes_to_other_brokers_is_nothing_to_do():
    assert asked(CHAIN, pick_of(("a", "", 50.0)), hops()).verdict is ImproveVerdict.QUIET
    assert asked(CHAIN, pick_of(), hops()).verdict is ImproveVerdict.QUIET


def test_the_best_tree_stays():
    assert (
        asked(CHAIN, pick_of(("a", "b", 500.0), ("b", "c", 500.0), ("c", "d", 500.0)), hops()).verdict
        is ImproveVerdict.BEST
    )


def test_a_small_share_is_left_where_it_is():
    pick = pick_of(("a", "b", 5_000.0), ("b", "c", 5_000.0), ("c", "d", 5_000.0), ("a", "c", 10.0), ("d", "b", 9.0))
    assert asked(CHAIN, pick, hops(), Rules(saving_min=0.0)).verdict in {ImproveVerdict.BEST, ImproveVerdict.CHANCE}
    more = pick_of(("a", "b", 1_000.0), ("b", "c", 1_000.0), ("c", "d", 90.0), ("d", "b", 100.0))
    assert asked(CHAIN, more, hops()).verdict is ImproveVerdict.LITTLE


def test_what_may_be_chance_is_left_where_it_is():
    """c–d against b–d, with numbers that differ as random ones would."""
    flows = (("a", "b", 100.0), ("b", "c", 100.0), ("c", "d", 100.0), ("d", "b", 110.0))
    assert asked(CHAIN, pick_of(*flows), hops(), Rules(saving_min=0.01)).verdict is ImproveVerdict.CHANCE
    many = pick_of(*((publisher, others, 100.0 * events) for publisher, others, events in flows))
    assert asked(CHAIN, many, hops(), Rules(saving_min=0.01)).verdict is ImproveVerdict.IMPROVE


def scarcely_better():
    """A tenth of what an event costs from a to d, by whichever link."""
    shorter = {("a", "c"): 1.9, ("b", "d"): 1.9, ("a", "d"): 2.9}
    return Costs(dict.fromkeys("abcd", 0.0), {**hops().communication, **shorter})


def test_few_events_do_not_pay_for_an_exchange():
    found = asked(CHAIN, pick_of(("a", "d", 10.0)), scarcely_better(), Rules(saving_min=0.0))
    assert found.verdict is ImproveVerdict.DEAR
    assert found.order.saving == pytest.approx(1.0)
    assert found.order.saving > 3 * deviation(found.pick.flows, CHAIN, found.order.end, scarcely_better())
    along = 3.0 if found.order.exchanges[0].add == ("a", "d") else 2.0
    assert cost_of_change(found.order, scarcely_better()) == pytest.approx(4.0 * along)


def test_a_sample_stands_for_all_events_when_it_is_asked_whether_it_pays():
    pick = pick_of(("a", "d", 10.0), one_in=64)
    assert asked(CHAIN, pick, scarcely_better(), Rules(saving_min=0.0)).verdict is ImproveVerdict.IMPROVE


def test_without_leave_nothing_is_done_but_it_is_told():
    pick = pick_of(("a", "d", 100.0), ("b", "c", 20.0))
    found = asked(CHAIN, pick, hops(), leave=0)
    assert (found.verdict, found.is_worth_it) == (ImproveVerdict.LIMIT, False)
    assert found.order.exchanges


def test_a_tree_above_the_limit_of_neighbours_is_not_repaired():
    star = Topology.of([("a", "b"), ("a", "c"), ("a", "d")])
    pick = pick_of(("a", "b", 100.0), ("a", "c", 100.0), ("a", "d", 100.0))
    assert asked(star, pick, hops(), Rules(degree_max=2)).verdict is ImproveVerdict.BEST


def test_the_last_exchanges_of_a_journey_go_if_they_save_little():
    flows = (Flow("a", frozenset("d"), 1_000.0), Flow("b", frozenset("d"), 10.0))
    goal = Topology.of([("a", "d"), ("b", "d"), ("c", "d")])
    whole = ExchangeOrder.of(CHAIN, goal, Problem(flows, hops(), 3), exchanges_max=9)
    assert len(whole.exchanges) == 2
    assert trimmed(whole, 0.0) == whole
    assert trimmed(whole, 0.05) == replace(whole, exchanges=whole.exchanges[:1])


@pytest.mark.parametrize("brokers", ["a", "ab"])
def test_where_there_is_one_tree_only_it_is_the_best(brokers):
    tree = Topology.of([tuple(brokers)] if len(brokers) == 2 else [], brokers)
    pick = pick_of(("a", brokers[1:], 100.0))
    verdict = asked(tree, pick, Prices().costs(brokers), starts=1).verdict
    assert verdict is (ImproveVerdict.BEST if len(brokers) == 2 else ImproveVerdict.QUIET)
