"""S1 §3.3, Definition 6: from any damaged state, and without faults, for every policy, mode and way to renew.

`long_run.py stabilise` runs the same 500 times for each.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.core.broker import BrokerState
from pleach.core.client.state import ClientMachineState
from pleach.core.effects import Send
from pleach.core.messages import Advertise, Installed, Layer, Subscribed, pack, unpack
from pleach.core.routing.exports import NUMBER_MAX
from pleach.core.routing.pending_acks import Need, Ticket
from pleach.core.routing.propagation import Propagation
from pleach.core.routing.renewal_rounds import RenewalRounds
from pleach.core.stabilise import lease_bounds
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.stabilise.leases import Leases
from pleach.scenario.stabilise_settings import stabilisation_of
from pleach.sim.run import ScenarioRun
from support.stabilise import damaged_networks
from support.stabilise.damaged_networks import (
    BY_NAME,
    FAULT_AT,
    KINDS,
    SETTINGS,
    cases,
    flaws_of_tables,
    judge_damaged,
    named,
    replay,
    struck_scenario,
)

HOP_BY_HOP = [s for s in SETTINGS if s.renewal is Renewal.HOP_BY_HOP and not s.advertisements]
ADVERTISED = [setting for setting in SETTINGS if setting.advertisements]
RELAYED = [setting for setting in SETTINGS if setting.renewal is Renewal.RELAYED]
COVERING = BY_NAME["covering/peer-to-peer"]
COVERING_ADVERTISED = BY_NAME["covering-advertised/peer-to-peer"]
MUTANT_SEEDS = 6


@pytest.mark.parametrize(("setting", "seed"), cases(HOP_BY_HOP, 5), ids=named)
def test_it_finds_back_within_the_bound_from_any_damage(setting, seed):
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.faults


@pytest.mark.parametrize(("setting", "seed"), cases(ADVERTISED, 2), ids=named)
def test_so_does_routing_by_advertisements_within_the_bound_of_both_layers(setting, seed):
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.faults


@pytest.mark.parametrize(("setting", "seed"), cases(RELAYED, 2), ids=named)
def test_so_do_relayed_renewals_while_clocks_agree(setting, seed):
    """Simple routing needs no common clock, and its clocks are damaged too."""
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)


@pytest.mark.parametrize(("setting", "seed"), cases(SETTINGS, 1), ids=named)
def test_without_faults_nothing_ever_runs_out(setting, seed):
    judgement = judge_damaged(seed, setting, is_damaged=False)
    assert not judgement.flaws, replay(judgement)
    assert not judgement.lapses
    assert judgement.deliveries or not judgement.published


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def flaws(seeds=MUTANT_SEEDS, setting=COVERING, *, is_damaged=True):
    return [flaw for seed in range(seeds) for flaw in judge_damaged(seed, setting, is_damaged=is_damaged).flaws]


def test_the_faults_do_damage():
    assert all(judge_damaged(seed, COVERING).wrong_at_first for seed in range(2))


def test_much_less_time_than_stated_is_not_enough():
    wrong = 0
    for seed in range(MUTANT_SEEDS):
        scenario = struck_scenario(seed, COVERING)
        run = ScenarioRun(scenario, seed, KINDS)
        run.advance(FAULT_AT + 0.5 * stabilisation_of(scenario))
        wrong += len(flaws_of_tables(run.brokers, run.clients))
    assert wrong


def test_a_network_without_renewals_between_brokers_is_seen(monkeypatch):
    monkeypatch.setattr(Leases, "_renew", lambda leases: [leases._renewal_timer()])
    assert flaws()


def test_clients_that_do_not_renew_what_they_advertise_are_seen(monkeypatch):
    renewals = ClientMachineState.renewals

    def forgetful(state, *, own_events):
        return [message for message in renewals(state, own_events=own_events) if not isinstance(message, Advertise)]

    monkeypatch.setattr(ClientMachineState, "renewals", forgetful)
    assert any("ADVERTISEMENTS" in flaw for flaw in flaws(setting=COVERING_ADVERTISED, is_damaged=False))


def test_advertisements_that_brokers_do_not_renew_are_seen(monkeypatch):
    renew = Propagation.renew
    monkeypatch.setattr(
        Propagation, "renew", lambda p, away=(): [] if p._layer is Layer.ADVERTISEMENTS else renew(p, away)
    )
    assert flaws(setting=COVERING_ADVERTISED, is_damaged=False)


def test_a_network_in_which_nothing_runs_out_is_seen(monkeypatch):
    monkeypatch.setattr(Leases, "_tick", lambda leases: [leases._tick_timer()])
    assert flaws()


@pytest.fixture
def _too_short(monkeypatch):
    monkeypatch.setattr(damaged_networks, "TIGHT", 0.9)
    monkeypatch.setattr(lease_bounds, "check", lambda *_: None)
    monkeypatch.setattr(damaged_networks, "check_stabilising", lambda _: None)


@pytest.mark.usefixtures("_too_short")
def test_a_period_below_the_bound_lets_live_subscriptions_run_out_where_time_alone_tells():
    assert any("ran out" in flaw for flaw in flaws(setting=BY_NAME["simple-relayed1/peer-to-peer"], is_damaged=False))


@pytest.mark.usefixtures("_too_short")
@pytest.mark.parametrize("setting", [COVERING, COVERING_ADVERTISED], ids=named)
def test_where_rounds_tell_nothing_runs_out_whatever_the_period(setting):
    assert not flaws(setting=setting, is_damaged=False)


@pytest.mark.usefixtures("_too_short")
def test_where_anything_after_a_tick_counts_as_a_round_it_does(monkeypatch):
    monkeypatch.setattr(RenewalRounds, "is_whole", lambda *_: True)
    assert any("ran out" in flaw for flaw in flaws(is_damaged=False))


# Single faults --------------------------------------------------------------------------------------------------


def test_a_confirmation_that_was_lost_comes_with_a_later_renewal():
    """All that everyone waits for is forgotten while subscriptions are under way."""
    scenario = struck_scenario(3, COVERING)
    only_waits = [step for step in scenario.steps if getattr(step, "what", "") not in ("", "waits")]
    steps = [
        msgspec.structs.replace(step, what="waits", share=1.0) if step in only_waits else step
        for step in scenario.steps
    ]
    run = ScenarioRun(msgspec.structs.replace(scenario, steps=tuple(steps)), 3, KINDS)
    run.finish()
    assert not damaged_networks._unconfirmed(run)


def restored(**changes):
    """A broker of a running network, with these fields of its subscriptions put in from a damaged disk; a neighbour."""
    run = ScenarioRun(struck_scenario(1, COVERING, is_damaged=False), 1, KINDS)
    run.advance(FAULT_AT)
    broker = run.brokers["b0"]
    state = unpack(broker.capture(), BrokerState)
    former = state.router.subscriptions
    merged = {
        key: {**getattr(former, key), **change} if isinstance(change, dict) else change
        for key, change in changes.items()
    }
    router = msgspec.structs.replace(state.router, subscriptions=msgspec.structs.replace(former, **merged))
    broker.restore(pack(msgspec.structs.replace(state, router=router)))
    return broker


NEIGHBOUR = "b1"  # of b0, in that network
CLIENT = "c1"  # of b0; it has subscribed to s1


@pytest.mark.parametrize("installs", [2**63 - 1, NUMBER_MAX, -5])
def test_a_number_out_of_range_does_not_keep_a_broker_counting(installs):
    """Answers are counted up to the last install that was sent: a broker that believed this one would never end."""
    broker = restored(installs={NEIGHBOUR: installs}, unanswered={NEIGHBOUR: [3]})
    assert broker.handle(NEIGHBOUR, Installed(Layer.SUBSCRIPTIONS, 3), now=FAULT_AT) == []


@pytest.mark.parametrize(
    ("requester", "token", "number"), [("nobody", 1, 3), (NEIGHBOUR, "s1", 3), (NEIGHBOUR, 1, 4), (NEIGHBOUR, 1, 99)]
)
def test_who_cannot_be_answered_is_not_waited_for(requester, token, number):
    ticket = (Ticket(Layer.SUBSCRIPTIONS, requester, token), [Need(NEIGHBOUR, number)])
    broker = restored(installs={NEIGHBOUR: 5}, unanswered={NEIGHBOUR: [3]}, waits=[ticket])
    assert broker.router.waiting_of(requester) == []


def test_who_can_be_is():
    ticket = (Ticket(Layer.SUBSCRIPTIONS, NEIGHBOUR, 1), [Need(NEIGHBOUR, 3)])
    broker = restored(installs={NEIGHBOUR: 5}, unanswered={NEIGHBOUR: [3]}, waits=[ticket])
    assert broker.router.waiting_of(NEIGHBOUR) == [ticket[0]]


def test_a_name_that_a_fault_has_made_up_keeps_nobody_else_from_being_answered():
    made_up, asked = (Ticket(Layer.SUBSCRIPTIONS, CLIENT, name) for name in ("s0", "s1"))
    waits = [(ticket, [Need(NEIGHBOUR, 3)]) for ticket in (made_up, asked)]
    broker = restored(installs={NEIGHBOUR: 5}, unanswered={NEIGHBOUR: [3]}, waits=waits)
    answered = broker.handle(NEIGHBOUR, Installed(Layer.SUBSCRIPTIONS, 3), now=FAULT_AT)
    assert answered == [Send(CLIENT, Subscribed("s1"))]


@pytest.mark.parametrize("reading", [float("nan"), float("inf"), -3.0, 0.0, 1e300, 7.7])
def test_a_damaged_clock_is_late_by_one_period_at_most(reading):
    run = ScenarioRun(struck_scenario(1, COVERING, is_damaged=False), 1, KINDS)
    leases = run.brokers["b0"].machine(Leases)
    leases._state.tick_after = leases._state.renewal_after = reading
    tick, renewal = leases.resume()
    assert 0 < tick.after <= leases._lease.period
    assert 0 < renewal.after <= leases._lease.refresh
