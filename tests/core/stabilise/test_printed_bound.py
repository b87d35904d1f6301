"""S1 (3.3), π > ρ + d(δmax − δmin), does not keep subscriptions alive that are renewed as §3.3.2 prints it.

A broker that has two subscribers with equal filters passes on the first renewal after its own tick, and none after
that: the other subscriber's flag is set. If that first one comes soon after the tick in one period and late in the next
one, almost π + ρ lie between what the neighbour hears; and if the neighbour's tick falls between the two, its entry
runs out. No π is long enough for that.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import SetTimer
from pleach.core.stabilise.leases import RENEWAL, TICK
from pleach.scenario.load import parse_scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, Rule, judge
from support.stabilise.damaged_networks import KINDS

REFRESH = 1.0
PERIODS = (1.5, 4.5)  # all of them more than ρ + d(δmax − δmin) = 1, as delays do not vary


# Algorithm 1 with flags, by itself ------------------------------------------------------------------------------


def runs_out(period: float, *, other_tick: float) -> bool:
    """Broker B has clients 1 and 2, renewed at 0.1 and 0.15 and then every ρ; B ticks at 0, its neighbour later.

    Algorithm 1: a renewal by client D goes on if no other destination has a set flag for the filter (i = 0).
    """
    end = 6 * period
    renewals = [(k * REFRESH + at, client) for client, at in ((1, 0.1), (2, 0.15)) for k in range(int(end / REFRESH))]
    ticks = [(k * period, 0) for k in range(int(end / period))]
    flags = {1: False, 2: False}
    heard = []
    for at, client in sorted([*renewals, *ticks]):
        if not client:
            flags = dict.fromkeys(flags, False)
            continue
        if not flags[3 - client]:
            heard.append(at)
        flags[client] = True
    windows = [(other_tick + k * period, other_tick + (k + 1) * period) for k in range(1, 4)]
    return any(not any(low < at <= high for at in heard) for low, high in windows)


@pytest.mark.parametrize("period", PERIODS)
def test_algorithm_1_lets_a_live_subscription_run_out_whatever_the_period(period):
    assert runs_out(period, other_tick=0.2)
    assert not runs_out(period, other_tick=0.0), "with one clock it does not"


# The same in the simulator ------------------------------------------------------------------------------------

NETWORK = """
name = "two brokers"
routing = "{routing}"
duration = {duration}
links = [["a", "b"]]
latency = {{ default = 0.01 }}
stabilise = {{ kind = "leases", refresh = 1.0, period = {period}, renewal = "{renewal}", variant = {variant} }}
clients = [
  {{ id = "c1", broker = "a", subscribe = ["x > 0"] }},
  {{ id = "c2", broker = "a", subscribe = ["x > 0"] }},
  {{ id = "p", broker = "b", publish = {{ every = 0.17, from = 1.0, attributes = {{ x = 1 }} }} }},
]
"""
ADVANCED = [("identity", 1), ("covering", 1), ("covering", 2), ("merging", 1), ("merging", 2)]


def lapses_and_losses(routing, variant, renewal, period, tick_of_b):
    text = NETWORK.format(routing=routing, variant=variant, renewal=renewal, period=period, duration=8 * period)
    run = ScenarioRun(parse_scenario(text), 1, KINDS)
    for broker, tick in (("a", 0.0), ("b", tick_of_b)):
        timers = [SetTimer(TICK, tick + period, is_upkeep=True), SetTimer(RENEWAL, 0.5, is_upkeep=True)]
        run.sim.perform(broker, timers)
    for client, phase in (("c1", 0.1), ("c2", 0.15)):
        run.sim.at(0.05, lambda c=client, p=phase: run.sim.perform(c, [SetTimer("renew", p - 0.05, is_upkeep=True)]))
    records = run.finish().records
    lapses = [record for record in records if record.kind == RecordKind.STATE and "ran out" in record.detail]
    return len(lapses), judge(records).count(Rule.LOST)


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize(("routing", "variant"), ADVANCED)
def test_relayed_renewals_lose_events_of_live_subscriptions_where_clocks_differ(routing, variant, period):
    lapses, losses = lapses_and_losses(routing, variant, "relayed", period, tick_of_b=0.3)
    assert lapses
    assert losses


@pytest.mark.parametrize("tick_of_b", [-0.009, 0.0, 0.009])  # δmin is 0.01
@pytest.mark.parametrize(("routing", "variant"), ADVANCED)
def test_with_one_clock_they_do_not(routing, variant, tick_of_b):
    assert lapses_and_losses(routing, variant, "relayed", PERIODS[0], tick_of_b) == (0, 0)


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("tick_of_b", [0.0, 0.3, 0.7])
def test_simple_routing_passes_on_every_renewal_and_needs_no_common_clock(period, tick_of_b):
    assert lapses_and_losses("simple", 1, "relayed", period, tick_of_b) == (0, 0)


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("tick_of_b", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("routing", ["simple", "identity", "covering", "merging"])
def test_hop_by_hop_nothing_runs_out(routing, period, tick_of_b):
    assert lapses_and_losses(routing, 1, "hop-by-hop", period, tick_of_b) == (0, 0)
