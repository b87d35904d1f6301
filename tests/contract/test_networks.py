"""The oracle over random networks: every policy, peer-to-peer and hierarchical, with and without advertisements.

`long_run.py contract` runs the same by the thousand.
"""

from __future__ import annotations

import pytest

from pleach.core.messages import Layer
from pleach.scenario.model import scenario_digest
from pleach.scenario.timeline import check_steps
from pleach.scenario.validate import check_clients, check_settings, check_tree
from pleach.sim.run import run_scenario
from pleach.trace import Rule, judge
from support.contract.judgement import disagreements, judge_network, out_of_order, replay
from support.contract.networks import COMBINATIONS, combined, random_scenario
from support.thorough import FACTOR

MODES = list(dict.fromkeys(combination.mode for combination in COMBINATIONS))
SEEDS_PER_CASE = 3
CASES_PER_MODE = 2 * FACTOR  # × 4 modes × 3 seeds × 6 policies
SEEDS_APART = 100_000  # modes meet different networks, also with a large factor
CASES = [(mode, SEEDS_APART * i + SEEDS_PER_CASE * n) for i, mode in enumerate(MODES) for n in range(CASES_PER_MODE)]
MUTANT_SEEDS = 3


@pytest.mark.parametrize(("mode", "first"), CASES)
def test_no_event_is_lost_doubled_spurious_or_out_of_order(mode, first):
    """S1 Definition 5, FIFO and causal order; and at every drain the tables are what decision 2 says.

    Tables shrink from policy to policy, at every drain of every seed.
    """
    for seed in range(first, first + SEEDS_PER_CASE):
        sizes: dict[str, list[int]] = {}
        for combination in COMBINATIONS:
            if combination.mode != mode:
                continue
            judgement = judge_network(combination, seed)
            assert not judgement.flaws, replay(judgement)
            assert judgement.drains, "nothing was looked at"
            if not combination.merge_bound:
                sizes[combination.routing] = judgement.remote_entries
        assert not out_of_order(sizes), f"seed {seed}, {mode}"


@pytest.mark.parametrize("seed", range(8))
def test_the_networks_are_scenarios_that_a_file_could_hold(seed):
    for combination in COMBINATIONS:
        scenario = combined(random_scenario(seed), combination)
        check_tree(scenario)
        check_settings(scenario)
        check_clients(scenario)
        check_steps(scenario)


def test_the_seed_alone_decides():
    assert scenario_digest(random_scenario(5)) == scenario_digest(random_scenario(5))
    assert scenario_digest(random_scenario(5)) != scenario_digest(random_scenario(6))


def test_together_the_networks_have_every_kind_of_step():
    kinds = {type(step).__name__ for seed in range(60) for step in random_scenario(seed).steps}
    wanted = "AdvertiseStep Crash Cut Drain Heal Restart SubscribeStep UnadvertiseStep UnsubscribeStep"
    assert kinds == set(wanted.split())


# Mutants: the checks see what they are there for ----------------------------------------------------------------


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.name)
def test_a_forgetful_broker_is_seen(combination):
    """At every drain each broker forgets what its clients wanted: the oracle misses what they do not get."""

    def forget(brokers):
        for broker in brokers.values():
            for client in broker.sessions.clients:
                for entry in broker.router.received_from(Layer.SUBSCRIPTIONS, client):
                    broker.router.remove(Layer.SUBSCRIPTIONS, client, entry)

    lost = 0
    for seed in range(MUTANT_SEEDS):
        result = run_scenario(combined(random_scenario(seed), combination), seed, watch=forget)
        lost += judge(result.records).count(Rule.LOST)
    assert lost


def test_a_lost_entry_is_seen():
    """Take one entry out of one table, behind the routing's back."""
    combination = next(c for c in COMBINATIONS if c.name == "covering/peer-to-peer")
    seen = []

    def damage(brokers):
        before = disagreements(brokers)
        for broker in brokers.values():
            for neighbour in broker.router.neighbours:
                for entry in broker.router.received_from(Layer.SUBSCRIPTIONS, neighbour):
                    broker.router.remove(Layer.SUBSCRIPTIONS, neighbour, entry)
                    seen.append((before, disagreements(brokers)))
                    return

    run_scenario(combined(random_scenario(3), combination), 3, watch=damage)
    before, after = seen[0]
    assert not before
    assert after
