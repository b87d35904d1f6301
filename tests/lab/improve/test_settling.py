"""A CI that settles: it comes to rest, every exchange lowers the cost, and it asks less and less."""

from dataclasses import replace

import numpy as np
import pytest

from pleach.core.optimise.settling import PATIENCE_MAX
from pleach.lab.improve.policies import Settling
from pleach.lab.improve.rounds import Improving, Tuning, simulate
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import flow_costs
from pleach.lab.waxman import Waxman
from support.thorough import FACTOR

STILL = Setting(
    brokers=40,
    jobs=20,
    subscribers=6,
    ticks=12_000,
    reassignment_interval=0.0,
    network=Waxman(domains=8, nodes_per_domain=20),
)
SEEDS = range(3 * FACTOR)


def late(run, field):
    """Per slot, in the second half of the run."""
    return np.mean([getattr(spent, field) for spent in run.slots[len(run.slots) // 2 :]])


@pytest.fixture(scope="module")
def runs():
    return {
        (name, seed): simulate(STILL, seed, Tuning(name)) for name in ("static", "ci", "settling") for seed in SEEDS
    }


def test_when_nothing_changes_it_comes_to_rest_and_ci_does_not(runs):
    """At most one exchange per 1,000 ticks and 100 brokers."""
    allowed = TICKS_PER_SLOT / 1_000 * STILL.brokers / 100
    assert np.mean([late(runs["settling", seed], "exchanges") for seed in SEEDS]) <= allowed
    assert np.mean([late(runs["ci", seed], "exchanges") for seed in SEEDS]) > allowed


def test_it_costs_no_more_than_ci_neither_by_its_tree_nor_in_all(runs):
    for seed in SEEDS:
        ci, ours = runs["ci", seed], runs["settling", seed]
        assert late(ours, "forwarding") < late(ci, "forwarding") < late(runs["static", seed], "forwarding")
        assert sum(late(ours, f) for f in ("broadcasts", "requests", "exchanging")) < late(ci, "forwarding") * 0.1


def test_it_asks_and_tells_less_and_less(runs):
    for seed in SEEDS:
        run = runs["settling", seed]
        for field in ("asked", "broadcasts"):
            assert late(run, field) < max(getattr(spent, field) for spent in run.slots) / 3


def test_every_exchange_lowers_the_cost_of_what_ledgers_have():
    network = Improving(STILL, 1, Tuning("settling"))
    traffic = traffic_of(STILL, 1)
    costs, lowered = traffic.eras[0].costs, 0
    for slot in range(20):
        flows = traffic.between(0, max(slot, 1))
        before = flow_costs(network.tree, flows, costs) @ flows.events
        exchanges = network.slot(slot).exchanges
        after = flow_costs(network.tree, flows, costs) @ flows.events
        assert after < before if exchanges else after == before
        lowered += bool(exchanges)
    assert lowered > 2


def test_it_wakes_up_when_jobs_move():
    moving = replace(STILL, reassignment_interval=2_500.0)
    assert late(simulate(moving, 1, Tuning("settling")), "exchanges") > 0


def test_patience_doubles_up_to_its_bound_and_ends_with_an_exchange():
    policy = Settling(4)
    path = np.array([[0, 1, 2]])
    waits = []
    for _ in range(8):
        policy._refuse(path, 0)
        waits.append(int(policy._not_before[0, 2]))
    assert waits == [1, 2, 4, 8, 16, PATIENCE_MAX, PATIENCE_MAX, PATIENCE_MAX]
    policy.exchanged(9, (0, 1, 3))
    assert policy._not_before[0, 2] == 0


def test_broadcasts_become_rarer_until_something_happens():
    policy = Settling(2)
    assert [slot for slot in range(30) if policy.broadcasting(slot, [0])] == [0, 1, 3, 7, 15, 23]
    policy.exchanged(24, (0,))
    assert policy.broadcasting(25, [0]) == [0]
