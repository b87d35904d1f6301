"""The way to a cheaper tree: every step leaves a tree, what saves most comes first, and an early end is a good one."""

from itertools import pairwise
from random import Random

import pytest

from pleach.core.optimise.cost import tree_cost
from pleach.core.optimise.exchange_order import Journey
from pleach.core.optimise.search import Problem
from pleach.core.overlay.choice import Circumstances
from pleach.core.overlay.plans import ExchangeStep, SwapStep, Topology, decode_plan, encode_plan
from support.optimise.priced_networks import drawn_costs, drawn_flows, drawn_tree

EVERYTHING = 1_000


def problem_of(seed, degree_max=12, count=12):
    draw = Random(seed)
    costs, flows = drawn_costs(draw, count), tuple(drawn_flows(draw, count, 15))
    trees = sorted((drawn_tree(draw, count) for _ in range(12)), key=lambda tree: tree_cost(flows, tree, costs))
    return Problem(flows, costs, degree_max), trees[-1], trees[0]


@pytest.mark.parametrize("seed", range(10))
def test_it_leads_to_the_goal_or_to_something_better(seed):
    problem, start, goal = problem_of(seed)
    journey = Journey.of(start, goal, problem, exchanges_max=EVERYTHING)
    assert journey.rank_then <= problem.rank(goal)
    assert journey.rank_then == problem.rank(journey.end)
    assert sum(leg.saving for leg in journey.legs) == pytest.approx(journey.saving)
    assert len(journey.legs) <= len({*goal.links} - {*start.links})


@pytest.mark.parametrize("seed", range(5))
def test_the_first_exchange_saves_as_much_as_any_that_leads_there(seed):
    problem, start, goal = problem_of(seed)
    first = Journey.of(start, goal, problem, exchanges_max=EVERYTHING).legs[0]
    for add in sorted({*goal.links} - {*start.links}):
        way = start.path(*add)
        for remove in pairwise(way):
            if not goal.has_link(*remove):
                links = {*start.links} - {tuple(sorted(remove))} | {add}
                assert first.rank.cost <= problem.rank(Topology.of(links)).cost + 1e-9


def test_with_few_exchanges_it_ends_at_the_best_tree_on_the_way():
    problem, start, goal = problem_of(1)
    whole = Journey.of(start, goal, problem, exchanges_max=EVERYTHING)
    part = Journey.of(start, goal, problem, exchanges_max=3)
    assert len(part.legs) <= 3 < len(whole.legs)
    assert part.legs == whole.legs[: len(part.legs)]
    assert part.rank_then == min(leg.rank for leg in whole.legs[:3])


def test_where_nothing_is_better_it_stays():
    problem, dear, cheap = problem_of(2)
    journey = Journey.of(cheap, dear, problem, exchanges_max=1)
    assert journey.rank_then <= journey.rank
    same = Journey.of(cheap, cheap, problem, exchanges_max=EVERYTHING)
    assert (same.legs, same.end, same.saving) == ((), cheap, 0.0)
    assert same.plan("auto", Circumstances()).steps == ()


@pytest.mark.parametrize("protocol", ["auto", "swaplink", "advanced-coordinated"])
def test_as_a_plan_it_leads_to_the_same_tree(protocol):
    problem, start, goal = problem_of(3)
    journey = Journey.of(start, goal, problem, exchanges_max=EVERYTHING)
    plan = journey.plan(protocol, Circumstances())
    assert (plan.start, plan.result) == (start, journey.end)
    assert decode_plan(encode_plan(plan)) == plan
    kinds = {"auto": (SwapStep, ExchangeStep), "swaplink": SwapStep, "advanced-coordinated": ExchangeStep}
    assert all(isinstance(step, kinds[protocol]) for step in plan.steps)


def test_on_its_way_it_keeps_the_limit_where_it_can():
    """A path whose ends and middle change: there is an order in which nobody has more than two neighbours."""
    problem, _, _ = problem_of(4, degree_max=2, count=5)
    start = Topology.of([("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    goal = Topology.of([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b0", "b4")])
    journey = Journey.of(start, goal, problem, exchanges_max=EVERYTHING)
    assert all(leg.rank.excess == 0 for leg in journey.legs)
