"""Rebuilding that waits for evidence (decision 32): as quick as its bound from any damage, and patient beyond it.

`long_run.py stabilise --kind paced` runs the same 500 times for each policy and mode.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.core.effects import SetTimer
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    OPERATOR,
    Anew,
    Attach,
    Attached,
    Install,
    InTable,
    Layer,
    Muster,
    Parity,
    Presence,
    Renewed,
    Subscribe,
    Switch,
    Unsubscribe,
    Whole,
)
from pleach.core.stabilise.paced import PacedRebuild
from pleach.core.stabilise.rebuild import SWITCH
from pleach.errors import InvalidInputError, ProtocolError
from pleach.scenario.load import parse_scenario
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.stabilise import damaged_networks
from support.stabilise.damaged_networks import (
    BY_NAME,
    KINDS,
    PACED,
    cases,
    judge_damaged,
    named,
    replay,
    struck_scenario,
)

COVERING = BY_NAME["rebuild-paced-covering/peer-to-peer"]
ADVERTISED = BY_NAME["rebuild-paced-identity-advertised/peer-to-peer"]
SEEDS = range(2)
MUTANT_SEEDS = range(8)  # at most: one that is seen is enough
SAMPLE = PACED[::4]  # of all policies, with and without advertisements, in both modes
EVEN, ODD = Parity.EVEN, Parity.ODD


@pytest.mark.parametrize(("setting", "seed"), cases(SAMPLE, 1), ids=named)
def test_it_finds_back_within_the_bound_from_any_damage(setting, seed):
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.faults


@pytest.mark.parametrize("setting", [COVERING, ADVERTISED], ids=named)
def test_without_faults_nothing_is_ever_missing(setting):
    for seed in SEEDS:
        judgement = judge_damaged(seed, setting, is_damaged=False)
        assert not judgement.flaws, replay(judgement)
        assert not judgement.lapses


# Beyond the bounds ------------------------------------------------------------------------------------------------


def slower_than_said(seed, setting):
    """Links take up to as long as a whole round does: nobody would state such delays."""
    scenario = struck_scenario(seed, setting, is_damaged=False)
    latency = msgspec.structs.replace(scenario.latency, default=Span(0.05, 1.5), links={})
    stabilise = msgspec.structs.replace(
        scenario.stabilise, delay=Span(0.0, 0.001), period=scenario.stabilise.refresh + 0.1
    )
    return msgspec.structs.replace(scenario, latency=latency, stabilise=stabilise)


def violations(scenario, seed):
    return len(judge(ScenarioRun(scenario, seed, KINDS).finish().records).violations)


@pytest.mark.parametrize("setting", [COVERING, ADVERTISED], ids=named)
def test_where_rounds_wait_for_evidence_nothing_is_lost_whatever_the_delays(setting):
    timed = BY_NAME[setting.name.replace("-paced", "")]
    assert not [seed for seed in SEEDS if violations(slower_than_said(seed, setting), seed)]
    assert any(violations(slower_than_said(seed, timed), seed) for seed in MUTANT_SEEDS), "time alone is not enough"


def test_rounds_that_do_not_wait_for_evidence_are_seen(monkeypatch):
    monkeypatch.setattr(PacedRebuild, "_is_complete", True)
    assert any(violations(slower_than_said(seed, COVERING), seed) for seed in MUTANT_SEEDS)


TWO_LAYERS = """
name = "two layers"
routing = "simple"
advertisements = true
duration = 30.0
links = [["root", "near"], ["root", "far"]]
latency = { default = 0.01, "far-root" = 0.5 }
stabilise = { kind = "rebuild-paced", refresh = 0.7, period = 0.8, delay = [0.0, 0.001] }
clients = [
  { id = "s", broker = "far", subscribe = ["x > 0"] },
  { id = "p", broker = "near", publish = { every = 0.02, until = 28.0, attributes = { x = 1 } } },
]
"""


@pytest.mark.parametrize(("waves", "is_clean"), [(2, True), (1, False)])
def test_one_wave_is_not_enough_where_there_are_advertisements(monkeypatch, waves, is_clean):
    """The far one is whole before it hears what is advertised, and says only then what it wants of that."""
    monkeypatch.setattr(PacedRebuild, "_waves", waves)
    assert bool(violations(parse_scenario(TWO_LAYERS), 1)) is not is_clean


def test_a_network_that_does_not_ask_again_is_seen(monkeypatch):
    monkeypatch.setattr(PacedRebuild, "_ask_children", lambda _: [])
    assert any(judge_damaged(seed, COVERING).flaws for seed in MUTANT_SEEDS)


def test_less_time_than_stated_is_not_enough(monkeypatch):
    monkeypatch.setattr(damaged_networks, "stabilisation_of", lambda scenario: scenario.stabilise.period)
    assert any(judge_damaged(seed, COVERING).flaws for seed in MUTANT_SEEDS)


LONG_ABSENCE = """
name = "absence"
routing = "covering"
duration = 20.0
links = [["root", "middle"], ["middle", "leaf"]]
latency = { default = 0.01 }
stabilise = { kind = "%s", refresh = 0.3, period = 0.5 }
clients = [
  { id = "s", broker = "leaf", subscribe = ["x > 0"] },
  { id = "p", broker = "root", publish = { every = 0.05, attributes = { x = 1 }, until = 18.0 } },
]
steps = [{ at = 2.0, do = "crash", broker = "%s" }, { at = 8.0, do = "restart", broker = "%s" }]
"""


@pytest.mark.parametrize("broker", ["root", "middle", "leaf"])
def test_a_broker_that_is_away_for_many_periods_misses_nothing(broker):
    scenario = parse_scenario(LONG_ABSENCE % ("rebuild-paced", broker, broker))
    run = ScenarioRun(scenario, 1, KINDS)
    verdict = judge(run.finish().records)
    assert verdict.clean
    machine = run.brokers["root"].machine(PacedRebuild)
    assert machine.counters.rounds > 15, "they go on afterwards"


def test_time_alone_loses_what_a_broker_that_is_away_wants():
    scenario = parse_scenario(LONG_ABSENCE % ("rebuild", "middle", "middle"))
    assert judge(ScenarioRun(scenario, 1, KINDS).finish().records).violations


def test_evidence_goes_up_one_tree():
    text = LONG_ABSENCE.replace("period = 0.5", "period = 0.5, cyclic = true") % ("rebuild-paced", "leaf", "leaf")
    with pytest.raises(InvalidInputError, match="evidence comes up one tree"):
        parse_scenario(text.replace("duration", 'ordering = "fifo"\nduration'))


# One broker -------------------------------------------------------------------------------------------------------

NETWORK = """
name = "line"
routing = "covering"
duration = 5.0
links = [["root", "middle"], ["middle", "leaf"]]
latency = { default = 0.01 }
stabilise = { kind = "rebuild-paced", refresh = 1.0, period = 2.0 }
"""
WANTED, OTHER = parse_filter("x > 0"), parse_filter("y > 0")


def made(name, more=""):
    return ScenarioRun(parse_scenario(more + NETWORK), 1, KINDS).brokers[name]


def hear(broker, *messages, sender):
    return [effect for message in messages for effect in broker.handle(sender, message, now=1.0)]


def middle(more=""):
    """With a client that wants something, and a round that has just begun."""
    broker = made("middle", more)
    hear(broker, Attach(), Subscribe("s1", WANTED), sender="c")
    hear(broker, Switch(ODD), sender="root")
    hear(broker, Switch(ODD), sender="leaf")
    return broker


def said(effects, kind=Whole):
    return [(effect.to, effect.message) for effect in effects if isinstance(getattr(effect, "message", None), kind)]


def installed(effects):
    inner = [(to, message.message) for to, message in said(effects, InTable)]
    return [(to, message.filter) for to, message in inner if isinstance(message, Install)]


def entries(broker, parity, source="c"):
    return [e.filter for e in broker.router.tables["", parity].received_from(Layer.SUBSCRIPTIONS, source)]


RENEWAL = (Attach(), Subscribe("s1", WANTED, renews=True), Renewed())
TOLD = [("root", Whole(ODD, 1))]


def test_a_broker_is_whole_once_its_clients_and_its_children_are():
    broker = middle()
    assert not said(hear(broker, Whole(ODD, 1), sender="leaf"))
    assert said(hear(broker, *RENEWAL, sender="c")) == TOLD
    assert not said(hear(broker, *RENEWAL, sender="c")), "once"


def test_the_last_one_may_be_a_child():
    broker = middle()
    assert not said(hear(broker, *RENEWAL, sender="c"))
    assert said(hear(broker, Whole(ODD, 1), sender="leaf")) == TOLD


@pytest.mark.parametrize("stale", [Whole(EVEN, 1), Whole(ODD, 2)])
def test_what_was_said_of_another_table_or_wave_does_not_count(stale):
    broker = middle()
    hear(broker, *RENEWAL, sender="c")
    assert not said(hear(broker, stale, sender="leaf"))


def test_a_child_behind_the_fence_is_not_whole():
    broker = made("middle")
    hear(broker, Switch(ODD), sender="root")
    assert not said(hear(broker, Whole(ODD, 1), sender="leaf"))
    assert said(hear(broker, Switch(ODD), Whole(ODD, 1), sender="leaf")) == TOLD


def test_a_round_of_renewals_that_began_before_the_table_was_emptied_is_none():
    broker = made("middle")
    hear(broker, Attach(), Subscribe("s1", WANTED), *RENEWAL[:2], sender="c")
    hear(broker, Switch(ODD), sender="root")
    hear(broker, Switch(ODD), Whole(ODD, 1), sender="leaf")
    assert not said(hear(broker, Renewed(), sender="c"))
    assert said(hear(broker, *RENEWAL, sender="c")) == TOLD


def test_a_client_that_came_later_is_not_waited_for():
    broker = middle()
    hear(broker, Attach(), Subscribe("s1", OTHER), sender="d")
    hear(broker, Whole(ODD, 1), sender="leaf")
    assert said(hear(broker, *RENEWAL, sender="c")) == TOLD


def test_a_request_that_is_not_waited_for_is_in_both_tables():
    """Else nobody could vouch for it, if its client goes away."""
    broker = middle()
    hear(broker, Subscribe("s2", OTHER, network_wide=False), sender="c")
    assert OTHER in entries(broker, EVEN)
    assert OTHER in entries(broker, ODD)


def test_a_client_that_goes_away_is_vouched_for():
    broker = middle()
    hear(broker, Whole(ODD, 1), sender="leaf")
    assert not entries(broker, ODD)
    gone = hear(broker, Presence(["c"], []), sender=OPERATOR)
    assert entries(broker, ODD) == [WANTED]
    assert said(gone, InTable)
    assert said(gone) == TOLD
    assert isinstance(gone[-1].message, Whole), "behind what it vouches for"


def test_a_client_that_is_away_is_vouched_for_when_the_next_round_begins():
    broker = middle()
    hear(broker, Presence(["c"], []), sender=OPERATOR)
    hear(broker, Switch(EVEN), sender="root")
    assert entries(broker, EVEN) == [WANTED]
    assert broker.machine(PacedRebuild).away == {"c"}
    greeted = hear(broker, Presence([], ["c"]), sender=OPERATOR)
    assert said(greeted, Attached) == [("c", Attached(1.0))]


def test_what_a_client_took_back_is_not_vouched_for():
    broker = middle()
    hear(broker, Unsubscribe("s1"), sender="c")
    hear(broker, Presence(["c"], []), sender=OPERATOR)
    assert not entries(broker, ODD)


def test_only_its_driver_tells_a_broker_who_is_there():
    with pytest.raises(ProtocolError, match="own driver reports presence"):
        hear(middle(), Presence([], []), sender="root")


@pytest.mark.parametrize("message", [Muster(ODD, 1), Whole(ODD, 1)])
def test_who_is_no_neighbour_has_no_say(message):
    with pytest.raises(ProtocolError, match="no neighbour"):
        hear(middle(), message, sender="c")


# Asking again -----------------------------------------------------------------------------------------------------


def test_a_client_that_is_late_when_the_root_asks_is_vouched_for():
    broker = middle()
    hear(broker, Whole(ODD, 1), sender="leaf")
    asked = hear(broker, Muster(ODD, 1), sender="root")
    assert said(asked) == TOLD
    assert entries(broker, ODD) == [WANTED]


def test_children_that_are_late_are_asked_on_and_what_the_parent_may_have_missed_is_said_again():
    broker = middle()
    hear(broker, *RENEWAL, sender="c")
    asked = hear(broker, Muster(ODD, 1), sender="root")
    assert said(asked, Muster) == [("leaf", Muster(ODD, 1))]
    assert said(asked, Anew) == [("root", Anew(ODD))]
    assert installed(asked) == [("root", WANTED)]
    hear(broker, Whole(ODD, 1), sender="leaf")
    assert said(hear(broker, Muster(ODD, 1), sender="root")) == TOLD
    assert not said(hear(broker, Muster(ODD, 1), sender="root"), Muster)


def test_a_child_that_is_away_is_not_asked():
    broker = middle()
    hear(broker, Presence(["leaf"], []), sender=OPERATOR)
    assert not said(hear(broker, Muster(ODD, 1), sender="root"), Muster)


def test_who_builds_another_table_switches():
    broker = middle()
    assert [to for to, _ in said(hear(broker, Muster(EVEN, 1), sender="root"), Switch)] == ["leaf", "root"]
    assert broker.router.building is EVEN


@pytest.mark.parametrize(("sender", "wave"), [("leaf", 1), ("root", 0), ("root", 2)])
def test_what_nobody_would_ask_is_not_heard(sender, wave):
    broker = middle()
    before = broker.capture()
    assert not hear(broker, Muster(ODD, wave), sender=sender)
    assert broker.capture() == before


def test_who_is_mustered_by_two_roots_names_both_until_a_round_begins():
    broker = middle()
    machine = broker.machine(PacedRebuild)
    before = broker.capture()
    assert not hear(broker, Muster(ODD, 1, "other"), sender="leaf")
    assert broker.capture() == before, "it is not heeded"
    assert machine.rivals is None, "its own is not known yet"
    asked = hear(broker, Muster(ODD, 1, "root"), sender="root")
    assert said(asked, Muster) == [("leaf", Muster(ODD, 1, "root"))], "the name goes on"
    assert machine.rivals == ("root", "other", "leaf")
    assert all(name in str(machine.rivals) for name in ("root", "other", "leaf", "parent"))
    hear(broker, Switch(EVEN), sender="root")
    assert machine.rivals is None


def test_what_a_fault_has_made_up_names_no_root():
    broker = middle()
    hear(broker, Muster(ODD, 1, "root"), sender="root")
    hear(broker, Muster(ODD, 1), sender="leaf")
    assert broker.machine(PacedRebuild).rivals is None


def test_a_child_that_switches_a_second_time_is_told_all_again():
    broker = middle()
    hear(broker, *RENEWAL, sender="c")
    again = hear(broker, Switch(ODD), sender="leaf")
    assert installed(again) == [("leaf", WANTED)]


def test_a_child_that_switches_as_it_should_is_told_nothing_again():
    broker = made("middle")
    hear(broker, Attach(), Subscribe("s1", WANTED), sender="c")
    hear(broker, Switch(ODD), sender="root")
    assert installed(hear(broker, *RENEWAL, sender="c")) == [("leaf", WANTED), ("root", WANTED)]
    assert not hear(broker, Switch(ODD), sender="leaf"), "it emptied its table before that came"


def test_a_switch_to_the_table_that_is_not_built_leaves_a_child_whole():
    broker = middle()
    hear(broker, Whole(ODD, 1), sender="leaf")
    assert not hear(broker, Switch(EVEN), sender="leaf")
    assert said(hear(broker, *RENEWAL, sender="c")) == TOLD


def due(broker):
    return list(broker.handle_timer(SWITCH, now=1.0))


def test_the_root_begins_the_next_round_when_all_is_whole_and_asks_otherwise():
    root = made("root")
    asked = due(root)
    assert said(asked, Muster) == [("middle", Muster(EVEN, 1, "root"))]
    assert [effect.after for effect in asked if isinstance(effect, SetTimer)] == [1.0], "again after a refresh"
    begun = hear(root, Whole(EVEN, 1), sender="middle")
    assert said(begun, Switch) == [("middle", Switch(ODD))], "at once: it is overdue"
    assert [effect.after for effect in begun if isinstance(effect, SetTimer)] == [2.0]
    hear(root, Switch(ODD), sender="middle")
    assert not hear(root, Whole(ODD, 1), sender="middle"), "not before its time"
    assert said(due(root), Switch) == [("middle", Switch(EVEN))]


def test_with_advertisements_it_is_asked_twice():
    root = made("root", "advertisements = true\n")
    due(root)
    assert said(hear(root, Whole(EVEN, 1), sender="middle"), Muster) == [("middle", Muster(EVEN, 2, "root"))]
    assert said(hear(root, Whole(EVEN, 2), sender="middle"), Switch) == [("middle", Switch(ODD))]


def test_the_second_wave_goes_through_at_once():
    broker = middle("advertisements = true\n")
    hear(broker, *RENEWAL, sender="c")
    hear(broker, Whole(ODD, 1), sender="leaf")
    asked = hear(broker, Muster(ODD, 2), sender="root")
    assert said(asked, Muster) == [("leaf", Muster(ODD, 2))]
    assert not said(asked, Anew), "nobody is late"
    assert said(hear(broker, Whole(ODD, 2), sender="leaf")) == [("root", Whole(ODD, 2))]


# State ------------------------------------------------------------------------------------------------------------


def test_state_that_is_captured_is_restored():
    broker = middle()
    hear(broker, Whole(ODD, 1), sender="leaf")
    hear(broker, Presence(["d"], []), sender=OPERATOR)
    again = made("middle")
    again.restore(broker.capture())
    assert again.capture() == broker.capture()
    assert said(hear(again, *RENEWAL, sender="c")) == TOLD


def test_a_neighbour_that_has_lost_its_memory_is_told_what_both_tables_have():
    broker = middle()
    hear(broker, *RENEWAL, sender="c")
    effects = broker.peer_reset("leaf")
    assert {message.parity for to, message in said(effects, InTable) if to == "leaf"} == {EVEN, ODD}


def test_what_a_round_finds_wrong_is_counted():
    broker = middle()
    machine = broker.machine(PacedRebuild)
    hear(broker, *RENEWAL, sender="c")
    broker.router.tables["", EVEN].remove(
        Layer.SUBSCRIPTIONS, "c", *broker.router.received_from(Layer.SUBSCRIPTIONS, "c")
    )
    ghost = Install(Layer.SUBSCRIPTIONS, 0, "", OTHER)
    broker.router.tables["", EVEN].handle("leaf", ghost)
    hear(broker, Switch(EVEN), sender="root")
    assert (machine.counters.rounds, machine.counters.missing, machine.counters.extra) == (2, 1, 1)
