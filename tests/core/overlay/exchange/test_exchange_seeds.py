"""A sample of `long_run.py exchange`: what each protocol promises, on seeds that go through all policies and orders."""

from __future__ import annotations

from collections import Counter

import pytest

from pleach.lab.exchanges.table1 import ProtocolRow
from pleach.lab.exchanges.workload import cycle_of, exchange_of
from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.overlay.exchange.exchange_networks import FLAT, PROTOCOLS, Cycles, network
from support.overlay.exchange.judgement import judge_exchange, replay, trial_of, unkept
from support.thorough import FACTOR

SEEDS = range(500_000, 500_000 + 18 * FACTOR)


@pytest.mark.parametrize("cycles", Cycles)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_promises_are_kept(protocol, cycles):
    broken, afterwards = Counter(), 0
    for seed in SEEDS:
        judgement = judge_exchange(seed, trial_of(seed, protocol, cycles=cycles))
        assert not judgement.flaws, replay(judgement)
        broken += judgement.broken
        afterwards += judgement.published_afterwards
    assert afterwards > 5 * len(SEEDS)
    if protocol != "advanced-coordinated":
        assert broken[Rule.LOST] + broken[Rule.DUPLICATE] > 0  # so the networks are not too quiet to break anything


@pytest.mark.parametrize("rule", [Rule.LOST, Rule.DUPLICATE, Rule.FIFO, Rule.CAUSAL])
def test_a_promise_that_is_not_kept_is_seen(rule):
    """Each order forgives what it does not promise, the strawman forgives everything."""
    once = Counter({rule: 1})
    forgiven = {Ordering.NONE: (Rule.FIFO, Rule.CAUSAL), Ordering.FIFO: (Rule.CAUSAL,), Ordering.CAUSAL: ()}
    for ordering, rules in forgiven.items():
        assert bool(unkept(once, ProtocolRow("advanced-coordinated", ordering))) == (rule not in rules)
        assert not unkept(once, ProtocolRow("strawman", ordering))


def test_seeds_in_a_row_go_through_everything():
    trials = [trial_of(seed, "path") for seed in range(len(FLAT) * len(Ordering))]
    assert len({(trial.combination.name, trial.ordering) for trial in trials}) == len(trials)


def test_faults_meet_every_way_to_route():
    crashes = {trial_of(seed, "path").combination.name for seed in range(0, 6 * 36 * 2, 6)}
    assert crashes == {combination.name for combination in FLAT}


def test_long_cycles_have_every_length_and_four_ends_apart():
    drawn = [network(seed, FLAT[0], "path", Ordering.FIFO, Cycles.LONG) for seed in range(200)]
    assert {len(cycle_of(scenario)) for scenario in drawn} == set(range(4, 13))
    four = [len({*exchange_of(scenario).remove, *exchange_of(scenario).add}) == 4 for scenario in drawn]
    assert sum(four) > len(drawn) / 2
