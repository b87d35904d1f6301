"""Self-tuning by flows: quiet at rest, no dearer than by hand, and the same rules as the core's."""

from random import Random

import numpy as np
import pytest
from test_settling import SEEDS, STILL, late

from pleach.lab.improve.broadcast_budget import RADIUS_MAX, RADIUS_MIN, TRAFFIC_SHARE
from pleach.lab.improve.course import total
from pleach.lab.improve.policies import SELF_TUNING
from pleach.lab.improve.rounds import Tuning, first_tree, simulate
from pleach.lab.improve.sampling import HORIZON_SLOTS, SAMPLE_MAX, levels_of, sampled, since_horizon
from pleach.lab.improve.setting import TICKS_PER_SLOT
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import broadcast_prices, costs_at, flow_costs
from support.optimise.tuned_agent import prices_of, told
from support.thorough import FACTOR


@pytest.fixture(scope="module")
def runs():
    return {(name, seed): simulate(STILL, seed, Tuning(name)) for name in ("settling", SELF_TUNING) for seed in SEEDS}


def test_when_nothing_changes_it_comes_to_rest(runs):
    """At most one exchange per 1,000 ticks and 100 brokers."""
    allowed = TICKS_PER_SLOT / 1_000 * STILL.brokers / 100
    assert np.mean([late(runs[SELF_TUNING, seed], "exchanges") for seed in SEEDS]) <= allowed


def test_it_costs_about_as_little_as_by_hand_in_all(runs):
    by_hand, ours = (
        np.mean([sum(map(total, runs[name, seed].slots)) for seed in SEEDS]) for name in ("settling", SELF_TUNING)
    )
    assert ours < 1.03 * by_hand


def test_looks_cost_no_more_than_their_share_of_the_traffic(runs):
    for seed in SEEDS:
        slots = runs[SELF_TUNING, seed].slots
        assert 0 < sum(slot.broadcasts for slot in slots) < TRAFFIC_SHARE * sum(slot.forwarding for slot in slots)


def test_what_events_cost_at_brokers_adds_up_to_what_they_cost():
    traffic, tree = traffic_of(STILL, 2), first_tree(STILL, Random(2))
    flows, costs = traffic.between(3, 9), traffic.eras[0].costs
    at_each = costs_at(tree, flows, costs)
    assert at_each.sum() == pytest.approx(flow_costs(tree, flows, costs) @ flows.events)
    assert (at_each >= 0).all()


def test_looks_have_the_prices_that_neighbours_would_tell():
    tree, costs = first_tree(STILL, Random(4)), traffic_of(STILL, 2).eras[0].costs
    everyone = range(STILL.brokers)
    beyond = {here: dict.fromkeys(map(str, tree.around[here]), ()) for here in everyone}
    for _ in range(RADIUS_MAX):
        beyond = {
            here: {
                str(there): told(
                    float(costs.processing[there]), float(costs.communication[here, there]), str(here), beyond[there]
                )
                for there in tree.around[here]
            }
            for here in everyone
        }
    for here in everyone:
        prices = broadcast_prices(tree, here, costs, RADIUS_MAX)
        assert prices == pytest.approx(prices_of(float(costs.processing[here]), beyond[here]))
        assert len(prices) > RADIUS_MIN


def test_samples_are_right_on_average_and_cover_the_horizon():
    traffic = traffic_of(STILL, 3)
    levels = levels_of(traffic)
    assert levels.max() > 0  # else there is nothing to be tested
    lately = traffic.consumed[:, HORIZON_SLOTS] - traffic.consumed[:, 0]
    assert (lately / 2.0 ** levels[:, HORIZON_SLOTS] <= SAMPLE_MAX).all()
    drawn = np.mean([sampled(traffic, seed).told[:, -1] for seed in range(40 * FACTOR)], axis=0)
    assert drawn == pytest.approx(traffic.told[:, -1], rel=0.02)
    assert (since_horizon(traffic)[:, 30] == 30 - HORIZON_SLOTS).all()
