"""How far a broker looks, and how often: never more than its share, whatever happens."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.lab.improve.broadcast_budget import (
    BACKOFF_MAX,
    BROADCASTS_SAVED_MAX,
    RADIUS_MAX,
    RADIUS_MIN,
    TRAFFIC_SHARE,
    BroadcastBudget,
)
from support.optimise.tuned_agent import prices_of, told

PRICES = [1.0, 3.0, 9.0, 20.0, 40.0, 60.0, 80.0]
rings = st.lists(st.floats(0.1, 50.0), min_size=1, max_size=8)
prices = rings.map(lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))])
incomes = st.lists(st.floats(0.0, 1_000.0), max_size=60)


def looks(income, price_list, exchanged=lambda _number: False):
    """How far each look went, one chance to look per income."""
    budget, found = BroadcastBudget(), []
    for number, spent in enumerate(income):
        budget = budget.earned(spent, price_list)
        hops = budget.radius(price_list)
        if hops is not None:
            budget = budget.broadcast(price_list[hops])
            found.append((number, hops))
        if exchanged(number):
            budget = budget.exchanged()
    return found


@given(incomes, prices)
def test_looks_never_cost_more_than_their_share_of_what_events_cost(income, price_list):
    paid = sum(price_list[hops] for _, hops in looks(income, price_list, lambda _: True))
    assert paid <= TRAFFIC_SHARE * sum(income) + 1e-6


@given(st.floats(0.0, 10_000.0), st.integers(1, BACKOFF_MAX), prices)
def test_a_look_goes_as_far_as_can_be_paid_for(credit, backoff, price_list):
    hops = BroadcastBudget(credit, backoff).radius(price_list)
    farthest = min(len(price_list) - 1, RADIUS_MAX)
    if hops is None:
        assert price_list[min(RADIUS_MIN, farthest)] > credit
        return
    assert min(RADIUS_MIN, farthest) <= hops <= farthest
    assert price_list[hops] <= credit
    assert hops == farthest or price_list[hops + 1] > credit


@given(incomes, prices)
def test_a_budget_is_never_fuller_than_a_few_looks(income, price_list):
    budget = BroadcastBudget()
    for spent in income:
        budget = budget.earned(spent, price_list)
        assert budget.credit <= BROADCASTS_SAVED_MAX * price_list[-1]


def test_where_events_are_many_looks_go_far_and_where_they_are_few_they_are_rare_and_near():
    many = looks([100_000.0] * 100, PRICES)
    few = looks([60.0] * 100, PRICES)
    assert {hops for _, hops in many} == {RADIUS_MAX}
    assert {hops for _, hops in few} == {RADIUS_MIN}
    assert 0 < len(few) < len(many) / 4


def test_at_rest_looks_cost_a_fraction_of_the_share():
    income = [200.0] * 4_000
    at_rest = sum(PRICES[hops] for _, hops in looks(income, PRICES))
    assert at_rest == pytest.approx(TRAFFIC_SHARE / BACKOFF_MAX * sum(income), rel=0.05)


def test_an_exchange_ends_backoff_and_debts():
    budget = BroadcastBudget(credit=5.0, backoff=BACKOFF_MAX).requested(30.0)
    assert budget.credit == -25.0
    assert budget.exchanged() == BroadcastBudget(0.0, 1)
    assert BroadcastBudget(4.0, 8).exchanged() == BroadcastBudget(4.0, 1)


@given(st.integers(2, 25), st.integers(0, 1_000))
def test_what_neighbours_tell_adds_up_to_what_a_look_costs(count, seed):
    """Told over and over, as often as a look may be far; against a walk over the whole tree."""
    draw = Random(seed)
    around, price = {str(i): {} for i in range(count)}, {str(i): draw.uniform(0, 9) for i in range(count)}
    for i in range(1, count):
        one, other, cost = str(i), str(draw.randrange(i)), draw.uniform(0, 9)
        around[one][other] = around[other][one] = cost
    beyond = {name: dict.fromkeys(others, ()) for name, others in around.items()}
    for _ in range(RADIUS_MAX):
        beyond = {
            name: {other: told(price[other], cost, name, beyond[other]) for other, cost in others.items()}
            for name, others in around.items()
        }
    for name in around:
        assert prices_of(price[name], beyond[name]) == pytest.approx(walked(name, around, price))


def walked(origin, around, price):
    found, front, seen = [price[origin]], [origin], {origin}
    for _ in range(RADIUS_MAX):
        steps = [(there, cost) for here in front for there, cost in around[here].items() if there not in seen]
        if not steps:
            break
        front = [there for there, _ in steps]
        seen.update(front)
        found.append(found[-1] + sum(price[there] + cost for there, cost in steps))
    return found
