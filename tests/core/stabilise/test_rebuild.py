"""S1 §3.4: tables rebuilt in turn, from any damaged state and without faults, for every policy and mode.

`long_run.py stabilise --kind rebuild` runs the same 500 times for each.
"""

from __future__ import annotations

import pytest

from pleach.core.broker import BrokerState
from pleach.core.effects import SetTimer
from pleach.core.events.language import parse_filter
from pleach.core.messages import Along, Anew, Attach, InTable, Layer, Parity, Subscribe, Switch, pack, unpack
from pleach.core.messages.routing import Forward, Install
from pleach.core.stabilise.rebuild import SWITCH, Rebuild, RebuildState
from pleach.core.stabilise.twin import TwinRouter
from pleach.errors import ProtocolError
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import delays_of, stabilisation_of
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.stabilise import damaged_networks
from support.stabilise.damaged_networks import (
    BY_NAME,
    FAULT_AT,
    KINDS,
    REBUILT,
    cases,
    flaws_of_tables,
    judge_damaged,
    named,
    replay,
    struck_scenario,
)

COVERING = BY_NAME["rebuild-covering/peer-to-peer"]
ADVERTISED = BY_NAME["rebuild-identity-advertised/peer-to-peer"]
CYCLIC = BY_NAME["rebuild-simple/cyclic"]
MUTANT_SEEDS = 4


@pytest.mark.parametrize(("setting", "seed"), cases(REBUILT, 1), ids=named)
def test_it_finds_back_within_the_bound_from_any_damage(setting, seed):
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.faults


@pytest.mark.parametrize(("setting", "seed"), cases(REBUILT, 1), ids=named)
def test_without_faults_nothing_is_ever_missing(setting, seed):
    judgement = judge_damaged(seed, setting, is_damaged=False)
    assert not judgement.flaws, replay(judgement)
    assert not judgement.lapses
    assert judgement.deliveries or not judgement.published


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def flaws(setting=COVERING, *, is_damaged=True):
    seeds = range(200, 200 + MUTANT_SEEDS)
    return [flaw for seed in seeds for flaw in judge_damaged(seed, setting, is_damaged=is_damaged).flaws]


@pytest.mark.parametrize("setting", [COVERING, CYCLIC], ids=named)
def test_the_faults_do_damage(setting):
    assert all(judge_damaged(seed, setting).wrong_at_first for seed in range(2))


def test_much_less_time_than_stated_is_not_enough():
    wrong = 0
    for seed in range(MUTANT_SEEDS):
        scenario = struck_scenario(seed, COVERING)
        run = ScenarioRun(scenario, seed, KINDS)
        run.advance(FAULT_AT + 0.4 * stabilisation_of(scenario))
        wrong += len(flaws_of_tables(run.brokers, run.clients))
    assert wrong


def test_a_network_in_which_no_round_begins_is_seen(monkeypatch):
    monkeypatch.setattr(Rebuild, "handle_timer", lambda rebuild, name, now: struck_out(rebuild))
    assert flaws()


def struck_out(rebuild):
    return Rebuild.handle(rebuild, rebuild._router.neighbours[0], Anew(Parity.EVEN), now=0.0)


def test_a_round_that_is_much_too_short_is_seen(monkeypatch):
    monkeypatch.setattr(damaged_networks, "TIGHT", 0.6)
    monkeypatch.setattr(damaged_networks, "check_stabilising", lambda _: None)
    assert flaws(is_damaged=False)


def test_a_cycle_on_which_nothing_is_said_again_is_seen(monkeypatch):
    monkeypatch.setattr(Rebuild, "_is_with_us", lambda rebuild, sender, parity: [])
    assert flaws(CYCLIC, is_damaged=False)


def test_requests_that_concern_one_table_alone_are_seen_where_there_are_advertisements(monkeypatch):
    """The table that is being built may not know yet who advertises: a subscription would stop at its first broker."""
    both = TwinRouter.add
    monkeypatch.setattr(TwinRouter, "add", lambda twin, *asked: both(twin, *asked[:3], None))
    assert any("lost" in flaw or "other" in flaw for flaw in flaws(ADVERTISED, is_damaged=False))


def test_on_a_cycle_two_rounds_are_not_enough():
    """A broker that already builds the table of the round, by a damaged flag, answers from it before it is emptied."""
    seed, setting = 290_033, BY_NAME["rebuild-covering-advertised/cyclic"]
    scenario = struck_scenario(seed, setting)
    run = ScenarioRun(scenario, seed, KINDS)
    damaged_networks.push_to_extremes(run, seed)
    damaged_networks.switch_near_the_fault(run, seed)
    delays = delays_of(scenario)
    run.advance(FAULT_AT + 2 * scenario.stabilise.period + 2 * delays.hops * delays.high)
    assert flaws_of_tables(run.brokers, run.clients)
    assert not judge_damaged(seed, setting).flaws


# One broker -----------------------------------------------------------------------------------------------------

NETWORK = """
name = "one in the middle"
routing = "covering"
duration = 5.0
links = [["root", "middle"], ["middle", "leaf"]]
latency = { default = 0.01 }
stabilise = { kind = "rebuild", refresh = 1.0, period = 2.0 }
"""
WANTED = parse_filter("x > 0")


def middle():
    run = ScenarioRun(parse_scenario(NETWORK), 1, KINDS)
    broker = run.brokers["middle"]
    broker.handle("c", Attach(), now=0.0)
    return broker


def install(parity, number=0):
    return InTable("", parity, Install(Layer.SUBSCRIPTIONS, number, "", WANTED))


def told(effects):
    return sorted((e.to, type(e.message).__name__) for e in effects)


def test_a_switch_goes_on_to_everyone_and_empties_one_table():
    broker = middle()
    broker.handle("c", Subscribe("s1", WANTED), now=0.0)
    switched = broker.handle("root", Switch(Parity.ODD), now=1.0)
    assert [(e.to, e.message) for e in switched] == [("leaf", Switch(Parity.ODD)), ("root", Switch(Parity.ODD))]
    assert not broker.router.tables["", Parity.ODD].received_from(Layer.SUBSCRIPTIONS, "c")
    assert broker.router.destinations({"x": 1}, "root") == ["c"], "the other table still knows"


def test_only_the_neighbour_towards_the_root_begins_a_round():
    broker = middle()
    broker.handle("c", Subscribe("s1", WANTED), now=0.0)
    assert not broker.handle("leaf", Switch(Parity.ODD), now=1.0)
    assert broker.router.tables["", Parity.ODD].received_from(Layer.SUBSCRIPTIONS, "c")


def test_a_renewal_is_told_once_in_a_round_and_a_request_for_both_tables():
    broker = middle()
    asked = broker.handle("c", Subscribe("s1", WANTED), now=0.0)
    assert [e.message.parity for e in asked if e.to == "root"] == [Parity.EVEN, Parity.ODD]
    assert not broker.handle("c", Subscribe("s1", WANTED, renews=True), now=0.5)
    broker.handle("root", Switch(Parity.ODD), now=1.0)
    first = broker.handle("c", Subscribe("s1", WANTED, renews=True), now=1.5)
    assert {e.message.parity for e in first} == {Parity.ODD}
    assert told(first) == [("leaf", "InTable"), ("root", "InTable")]
    assert not broker.handle("c", Subscribe("s1", WANTED, renews=True), now=2.5)


@pytest.mark.parametrize("parity", Parity)
def test_behind_the_fence_nothing_counts_until_the_neighbour_has_switched_too(parity):
    broker = middle()
    broker.handle("root", Switch(parity), now=1.0)
    assert not broker.handle("leaf", install(parity), now=1.1)
    assert told(broker.handle("leaf", install(parity.other), now=1.1)) == [("root", "InTable")]
    assert told(broker.handle("root", install(parity), now=1.1)) == [("leaf", "InTable")], "it switched before"
    broker.handle("leaf", Switch(parity), now=1.2)
    assert told(broker.handle("leaf", install(parity), now=1.3)) == [("root", "InTable")]


def test_who_is_no_neighbour_has_no_say():
    with pytest.raises(ProtocolError, match="no neighbour"):
        middle().handle("c", Switch(Parity.ODD), now=0.0)


def test_what_belongs_to_no_table_changes_none():
    broker = middle()
    before = broker.capture()
    broker.handle("leaf", Install(Layer.SUBSCRIPTIONS, 1, "", WANTED), now=0.0)
    broker.handle("leaf", InTable("nowhere", Parity.EVEN, Install(Layer.SUBSCRIPTIONS, 1, "", WANTED)), now=0.0)
    assert broker.capture() == before


def test_state_that_is_captured_is_restored():
    broker = middle()
    broker.handle("c", Subscribe("s1", WANTED), now=0.0)
    broker.handle("root", Switch(Parity.ODD), now=1.0)
    state = broker.capture()
    again = ScenarioRun(parse_scenario(NETWORK), 1, KINDS).brokers["middle"]
    again.restore(state)
    assert again.capture() == state
    assert again.router.building is Parity.ODD
    assert not again.handle("leaf", install(Parity.ODD), now=1.1), "the fence is restored, too"


@pytest.mark.parametrize("reading", [float("nan"), float("inf"), -3.0, 0.0, 1e300, 7.7])
def test_a_damaged_clock_is_late_by_one_period_at_most(reading):
    run = ScenarioRun(parse_scenario(NETWORK), 1, KINDS)
    root = run.brokers["root"]
    state = unpack(root.capture(), BrokerState)
    rebuild = unpack(state.machines[Rebuild.name], RebuildState)
    rebuild.switch_after = reading
    state.machines[Rebuild.name] = pack(rebuild)
    root.restore(pack(state))
    (timer,) = root.resume(now=0.0)
    assert 0 < timer.after <= 2.0
    assert not run.brokers["leaf"].resume(now=0.0), "nobody else has one"


BUSY = """
clients = [
  { id = "s", broker = "leaf", subscribe = ["x > 0"] },
  { id = "p", broker = "root", publish = { every = 0.02, attributes = { x = 1 } } },
]
steps = [
  { at = 1.0, do = "crash", broker = "%(broker)s" }, { at = %(back)g, do = "restart", broker = "%(broker)s" },
]
"""


@pytest.mark.parametrize("broker", ["root", "middle", "leaf"])
@pytest.mark.parametrize("phase", [0.05, 0.8, 1.2])
def test_a_broker_that_is_away_for_less_than_a_round_has_room_for_is_not_missed(broker, phase):
    """The round is 0.96 s longer than it must be; one begins long before the absence, just before it, or in it."""
    text = NETWORK.replace("duration = 5.0", "duration = 12.0") + BUSY % {"broker": broker, "back": 1.9}
    run = ScenarioRun(parse_scenario(text), 1, KINDS)
    run.sim.perform("root", [SetTimer(SWITCH, phase, is_upkeep=True)])
    records = run.finish().records
    assert judge(records).clean
    assert not [record for record in records if "ran out" in record.detail]


# Cycles -----------------------------------------------------------------------------------------------------------

RING = """
name = "ring"
routing = "covering"
ordering = "fifo"
duration = 6.0
links = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"], ["a", "c"]]
latency = { default = [0.001, 0.02] }
stabilise = { kind = "rebuild", cyclic = true, refresh = 0.5, period = 1.0 }
clients = [
  { id = "s", broker = "d", subscribe = ["x > 0", "x > 5"] },
  { id = "p", broker = "b", publish = { every = 0.05, attributes = { x = { uniform = [0, 9] } } } },
  { id = "q", broker = "c", subscribe = ["x = 3"], publish = { every = 0.1, attributes = { x = 3 } } },
]
"""


def test_on_a_ring_events_come_once_by_a_shortest_way():
    result = ScenarioRun(parse_scenario(RING), 1).finish()
    assert judge(result.records).clean
    carried = [r for r in result.records if r.message == "Along" and r.event == "p/0/30"]
    assert len(carried) <= 3, "b to d takes two links, by a or c; c itself may want it"
    assert not [r for r in result.records if r.message == "Forward"]


def test_an_event_that_comes_another_way_than_its_own_is_not_taken():
    run = ScenarioRun(parse_scenario(RING), 1)
    run.advance(3.0)
    stranger = run.clients["p"].draft({"x": 7})
    ring = run.brokers["d"]
    parent = ring.router.wiring.branches["b"].parent
    other = next(n for n in ring.router.neighbours if n != parent)
    assert not ring.handle(other, along("b", stranger), now=3.0)
    assert told(ring.handle(parent, along("b", stranger), now=3.0)) == [("s", "Deliver")]
    assert not ring.handle(parent, Forward(stranger), now=3.0), "without its tree nobody knows where it belongs"


def along(tree, event):
    return Along(tree, Forward(event))
