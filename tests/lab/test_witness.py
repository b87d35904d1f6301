"""What the witness counts, on ways that can be counted by hand and on runs."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from pleach.lab.exchanges.consequences import costs, extra_delays, guarantees, run_exchange, times, trees_on_the_way
from pleach.lab.exchanges.witness import EventRoute, Misrouted, RunWitness
from pleach.lab.exchanges.workload import EXCHANGE_AT, ExchangeWorkload, cycle_of, workload_scenario
from pleach.scenario.model import Ordering, Routing
from pleach.scenario.steps import Exchange
from pleach.sim.run import ScenarioRun

HIGH = 50.0


def journey(*hops, served):
    """Hops one after the other, each arriving at once; the first broker has the event from its publisher."""
    found = EventRoute(came_from={hops[0][0]: None}, served=dict.fromkeys(served))
    for at, (sender, to) in enumerate(hops):
        found.hops.append((float(at), sender, to))
        found.came_from.setdefault(to, sender)
    return found


class TestMisrouted:
    def test_the_ways_to_those_who_want_it_are_not(self):
        assert journey("ab", "bc", "bd", served="cd").misrouted(0.0) == Misrouted(0, 0)

    def test_a_way_to_nobody_is_one_dead_end_per_hop(self):
        assert journey("ab", "bc", "cd", "be", served="e").misrouted(0.0) == Misrouted(dead_ends=2)

    def test_an_event_that_nobody_gets_is_misrouted_all_the_way(self):
        assert journey("ab", "bc", served="").misrouted(0.0).hops == 2

    def test_the_same_event_once_more_is_a_second_copy(self):
        assert journey("ab", "ac", "cb", served="bc").misrouted(0.0) == Misrouted(second_copies=1)

    def test_what_comes_back_to_its_publisher_is_a_second_copy(self):
        assert journey("ab", "bc", "ca", served="c").misrouted(0.0) == Misrouted(second_copies=1)

    def test_twice_over_one_link_is_a_second_copy(self):
        assert journey("ab", "ab", served="b").misrouted(0.0) == Misrouted(second_copies=1)

    def test_what_was_before_the_watch_does_not_count(self):
        assert journey("ab", "bc", "ad", served="d").misrouted(2.0) == Misrouted(0, 0)
        assert journey("ab", "bc", "ad", served="d").misrouted(1.0) == Misrouted(dead_ends=1)


def scenario_of(exchange, seed=3, cycle=6, *, is_lively=False, ordering=Ordering.CAUSAL):
    return workload_scenario(ExchangeWorkload(cycle, HIGH, is_lively=is_lively), seed, exchange, ordering)


def test_without_an_exchange_nothing_is_counted():
    scenario = scenario_of("path")
    cycle = cycle_of(scenario)
    still = msgspec.structs.replace(scenario, steps=tuple(s for s in scenario.steps if not isinstance(s, Exchange)))
    witness = RunWitness(ScenarioRun(still, 3), since=EXCHANGE_AT, cycle=cycle)
    assert witness.finish().quiet
    assert witness.overhead == witness.traffic.control == witness.outside == 0
    assert not witness.locked_brokers
    assert witness.misrouted == Misrouted(0, 0)


def test_the_witness_changes_nothing():
    scenario = scenario_of("strawman", is_lively=True)
    alone, watched = ScenarioRun(scenario, 3), ScenarioRun(scenario, 3)
    witness = RunWitness(watched, since=EXCHANGE_AT, cycle=cycle_of(scenario))
    assert alone.finish().records == witness.finish().records


def test_a_swap_takes_twelve_messages_and_three_brokers():
    """S0 §VI, Fig. 12: and no entries, where every broker knows all subscriptions."""
    scenario = msgspec.structs.replace(scenario_of("swaplink", cycle=3), routing=Routing.SIMPLE)
    witness = run_exchange(scenario, 3).witness
    assert witness.traffic.protocol == witness.traffic.control == 12
    assert sorted(witness.locked_brokers) == sorted(cycle_of(scenario))
    assert not witness.is_anyone_locked


def test_control_is_all_that_is_counted():
    for exchange in ("strawman", "path", "advanced-coordinated"):
        found = {sample.metric: sample.value for sample in costs(run_exchange(scenario_of(exchange), 3))}
        parts = found["entries"] + found["protocol_messages"]
        assert found["control"] == parts + found["confirmations"]
        assert found["overhead"] == parts + found["misrouted"]
        assert found["control_bytes"] > found["control"]


@pytest.mark.parametrize(
    ("exchange", "has_outside", "has_second_copies"),
    [
        ("strawman", True, True),
        ("deferred", True, True),
        ("path", False, True),
        ("advanced-coordinated", False, False),
    ],
)
def test_what_tells_protocols_apart_is_seen(exchange, has_outside, has_second_copies):
    witnesses = [run_exchange(scenario_of(exchange, seed), seed).witness for seed in range(3)]
    assert any(witness.outside for witness in witnesses) == has_outside
    assert any(witness.misrouted.second_copies for witness in witnesses) == has_second_copies


class TestConsequences:
    def test_what_is_broken_is_what_the_oracle_found(self):
        exchanged = run_exchange(scenario_of("deferred", is_lively=True), 3)
        found = {sample.metric: sample.value for sample in guarantees(exchanged)}
        verdict = exchanged.verdict
        assert found["duplicate"] > 0
        assert found["broken_afterwards"] == found["spurious"] == 0
        broken = sum(found[rule] for rule in ("lost", "duplicate", "spurious", "fifo", "causal"))
        assert broken == len(verdict.violations) + len(verdict.tolerated)
        assert exchanged.afterwards

    def test_only_who_waits_delays(self):
        """Under causal order, what comes over the new link waits for both separators (S1 rule 7)."""
        none, causal = (
            extra_delays(run_exchange(scenario_of("advanced-coordinated", ordering=ordering), 3))
            for ordering in (Ordering.NONE, Ordering.CAUSAL)
        )
        assert max(none).extra == 0.0 < max(causal).extra
        assert all(delay.extra == delay.held_back for delay in causal)

    def test_swaps_go_through_trees_in_which_events_take_longer(self):
        """Which is no delay that a swap would cause (S0, minimal delay)."""
        scenario = scenario_of("swaplink-published", seed=1, cycle=10)
        delays = extra_delays(run_exchange(scenario, 1))
        assert max(delays).extra > 0.0
        assert all(delay.held_back <= delay.extra for delay in delays)
        assert len(trees_on_the_way(scenario)) == 9  # n - 2 swaps

    def test_an_exchange_that_is_refused_is_not_complete(self):
        scenario = scenario_of("path")
        x, y, *_ = cycle_of(scenario)
        present = Exchange(at=EXCHANGE_AT, remove=(x, y), add=(x, y))
        exchanged = run_exchange(msgspec.structs.replace(scenario, steps=(present,)), 3)
        assert exchanged.refusals
        assert not exchanged.is_complete

    def test_times_are_those_of_the_trace(self):
        exchanged = run_exchange(scenario_of("swaplink", cycle=5), 3)
        found = {sample.metric: sample.value for sample in times(exchanged)}
        ends = [r.at for r in exchanged.records if r.detail.startswith("operation") and r.detail.endswith("done")]
        assert exchanged.is_complete
        over = max(*ends, exchanged.witness.unlocked_at)
        assert found["completion_ms"] == pytest.approx(1000 * (over - EXCHANGE_AT))
        assert len(ends) >= 3  # swaps
        assert found["locked_brokers"] == 5
        assert all(earlier <= later for earlier, later in pairwise(ends))
