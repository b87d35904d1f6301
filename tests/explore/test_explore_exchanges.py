"""Every order of an exchange of links on the smallest cycle: what each protocol breaks, and that one breaks nothing."""

from pathlib import Path

import msgspec
import pytest

from pleach.core.messages import RequestExchange, RequestSwap
from pleach.core.overlay.registry import CYCLES, SWAPS, WAITING
from pleach.errors import ScenarioError, ScheduleError
from pleach.explore.search import ExploreOutcome, explore
from pleach.scenario.load import load_scenario
from pleach.scenario.schedule import ExploreOptions, Schedule, ScheduleStep
from pleach.scenario.script import ScriptedRequests, describe, script_of
from pleach.sim.replay import replay
from pleach.trace import judge
from support.explore.chains import Chain, advertise, client, crash, publish, restart, unsubscribe
from support.explore.cycles import AGAIN, LEFT_TO_RIGHT, RIGHT_TO_LEFT, cycle, explored, length, one_event

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMERS = ExploreOptions(instant_clients=True, timers=True)
CORRECTED = "advanced-coordinated"
PRINTED = "advanced-coordinated-printed"


def example(name, exchange=""):
    scenario = load_scenario(EXAMPLES / f"{name}.toml")
    return msgspec.structs.replace(scenario, exchange=exchange) if exchange else scenario


# Scripts ---------------------------------------------------------------------------------------------------------


def test_an_exchange_along_the_cycle_is_one_request():
    script = script_of(cycle())
    assert script.actions == {"1": (ScriptedRequests(RequestExchange("1.1", ["1", "2", "3", "4"], 1, CORRECTED)),)}
    assert describe(script.actions["1"][0]) == "operation 1.1: exchange 2-3 for 1-4"
    assert {("1", "4"), ("4", "1")} <= set(script.links)


def test_an_exchange_by_swaps_is_a_plan_whose_steps_wait_for_each_other():
    actions = script_of(cycle(exchange="swaplink")).actions
    assert actions == {
        "1": (ScriptedRequests(RequestSwap("1.2", "1", "3", "4", "swaplink"), after=("1.1",)),),
        "3": (ScriptedRequests(RequestSwap("1.1", "3", "2", "1", "swaplink")),),
    }


def test_a_swap_is_asked_for_in_the_words_of_the_protocol():
    chain = Chain(steps=("do = 'swap'\nbrokers = ['a', 'b', 'c']",))
    scenario = msgspec.structs.replace(chain.scenario(), exchange=CORRECTED)
    assert script_of(scenario).actions == {
        "a": (ScriptedRequests(RequestExchange("1", ["a", "b", "c"], 0, CORRECTED)),)
    }


def test_an_exchange_is_planned_for_the_tree_that_earlier_steps_leave():
    back = "do = 'exchange'\nremove = ['1', '4']\nadd = ['2', '3']"
    script = script_of(cycle(back))
    assert script.actions["2"] == (ScriptedRequests(RequestExchange("2.1", ["2", "1", "4", "3"], 1, CORRECTED)),)


def test_an_exchange_that_leaves_no_tree_is_refused():
    wrong = "do = 'exchange'\nremove = ['1', '2']\nadd = ['1', '3']"
    with pytest.raises(ScenarioError, match="step `exchange` at 2 s is not possible: 1 and 3 are joined without"):
        script_of(cycle(wrong))


@pytest.mark.parametrize("protocol", sorted(WAITING))
def test_protocols_that_wait_for_timers_are_explored_with_timers(protocol):
    with pytest.raises(ScenarioError, match="explore it with timers"):
        script_of(cycle(exchange=protocol))
    assert script_of(cycle(exchange=protocol), TIMERS)


def test_a_schedule_that_asks_for_a_step_of_a_plan_too_early_is_an_error():
    schedule = Schedule("a chain", "", (ScheduleStep(act="1"),))
    with pytest.raises(ScheduleError, match=r"step 1: '1' is asked only after operation 1\.1"):
        replay(cycle(exchange="swaplink"), schedule)


# Without events --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", sorted({*SWAPS, *CYCLES} - {PRINTED, f"{PRINTED}-begin", f"{PRINTED}-unlock"}))
def test_the_exchange_ends_in_every_order(protocol):
    result = explored(cycle(exchange=protocol))
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


CRASHES = [
    ("strawman", "1"),
    ("informed", "2"),
    ("coordinated", "3"),
    ("path", "2"),
    ("swaplink", "1"),
    *((CORRECTED, b) for b in "1234"),
]


@pytest.mark.parametrize(("protocol", "broker"), CRASHES)
def test_the_exchange_ends_whenever_a_broker_crashes_and_returns(protocol, broker):
    """At whatever moment: also before a timer, whose delay is nothing where all are locked in no time."""
    subscriber = client("s", "3", "price > 50")
    result = explored(cycle(crash(broker), restart(broker), clients=(subscriber,), exchange=protocol))
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


# What each protocol breaks ---------------------------------------------------------------------------------------

BROKEN = [  # S1 §4.4.1, with the length of the shortest schedule, up to the end of the exchange
    ("strawman", LEFT_TO_RIGHT, "lost", 20),
    ("strawman", RIGHT_TO_LEFT, "duplicate", 31),
    ("deferred", LEFT_TO_RIGHT, "lost", 27),
    ("deferred", RIGHT_TO_LEFT, "duplicate", 31),
    ("coordinated", LEFT_TO_RIGHT, "lost", 0),
    ("coordinated", RIGHT_TO_LEFT, "duplicate", 31),
    ("informed", LEFT_TO_RIGHT, "lost", 22),
    ("informed", RIGHT_TO_LEFT, "duplicate", 25),
    ("path", LEFT_TO_RIGHT, "lost", 18),
    ("path", RIGHT_TO_LEFT, "duplicate", 30),
    (CORRECTED, LEFT_TO_RIGHT, "", 0),
    (CORRECTED, RIGHT_TO_LEFT, "", 0),
    ("swaplink", LEFT_TO_RIGHT, "", 0),
    ("swaplink", RIGHT_TO_LEFT, "", 0),
]


@pytest.mark.parametrize(("protocol", "clients", "kind", "steps"), BROKEN)
def test_shortest_schedules_of_what_is_lost_and_doubled(protocol, clients, kind, steps):
    assert length(explored(one_event(clients, protocol), kind)) == steps


# As S1 prints it -------------------------------------------------------------------------------------------------

MISPRINTS = [
    ("printed-begin", "never ended", 17),
    ("printed-sender", "lost", 33),
    ("printed-sender", "causal", 39),
    ("printed-unlock", "lost", 35),
    ("printed-unlock", "still locked", 33),
]


@pytest.mark.parametrize(("name", "kind", "steps"), MISPRINTS)
def test_each_error_of_the_printed_algorithm_has_a_shortest_schedule(name, kind, steps):
    result = explored(example(name), kind)
    assert kind in result.finding.kinds
    assert length(result) == steps


@pytest.mark.parametrize("name", sorted({name for name, _, _ in MISPRINTS}))
def test_the_printed_algorithm_has_all_errors_and_the_corrected_one_none(name):
    kinds = {kind for each, kind, _ in MISPRINTS if each == name}
    found = explored(example(name, PRINTED)).kinds
    assert kinds <= set(found)
    assert "raised" not in found  # it goes wrong as S1 has it, and not by an exception of ours
    assert explored(example(name, CORRECTED)).outcome is ExploreOutcome.CLEAN


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind, _ in MISPRINTS if kind in ("lost", "causal")])
def test_the_simulator_agrees(name, kind):
    scenario = example(name)
    schedule = explored(scenario, kind).finding.schedule
    assert kind in {violation.rule.value for violation in judge(replay(scenario, schedule).records).violations}


# As S2 prints it -------------------------------------------------------------------------------------------------


def test_the_path_as_printed_forgets_who_subscribes_again():
    """S2 §4.3.2: what v withdraws at once it does not tell again, since its copy of P_add has it."""
    result = explored(
        cycle(*AGAIN, clients=(client("p", "1"), client("s", "4", "price > 50")), exchange="path-printed")
    )
    assert set(result.kinds) == {"tables disagree"}
    assert length(result) == 27
    assert "1 lacks price > 50" in result.finding.reason


def test_our_path_does_not():
    result = explored(cycle(*AGAIN, clients=(client("p", "1"), client("s", "4", "price > 50")), exchange="path"))
    assert result.outcome is ExploreOutcome.CLEAN, result.finding


# The corrected one -----------------------------------------------------------------------------------------------

CHANGING = {
    "an event and its answer": example("exchange-of-four"),
    "a subscription ends and begins again": cycle(
        *AGAIN, publish("p", 60), clients=(client("p", "1"), client("s", "4", "price > 50"))
    ),
    "a wide filter goes that hid a narrow one": cycle(
        unsubscribe("s", "price > 10"),
        publish("p", 60),
        clients=(client("p", "2"), client("s", "3", "price > 50", "price > 10")),
        routing="covering",
    ),
    "an advertisement comes": cycle(
        advertise("p", "price > 0"),
        publish("p", 60),
        clients=(client("p", "1") + "\nadvertise = ['price > 65']", client("s", "3", "price > 50")),
        advertisements=True,
    ),
    "in fifo order": cycle(publish("p", 60), publish("p", 70), clients=RIGHT_TO_LEFT, ordering="fifo"),
    "in no order": cycle(publish("p", 60), publish("p", 70), clients=RIGHT_TO_LEFT, ordering="none"),
}


@pytest.mark.parametrize("case", CHANGING)
def test_the_corrected_one_holds_in_every_order(case):
    result = explore(CHANGING[case], options=ExploreOptions(instant_clients=True))
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


def test_opposed_exchanges_are_locked_out_in_every_order():
    """Two at once whose cycles overlap. The one that is refused waits for its timer; nothing is left of its attempt."""
    other = "do = 'exchange'\nremove = ['3', '4']\nadd = ['2', '4']"
    scenario = cycle(other)
    at_once = tuple(msgspec.structs.replace(step, at=1.0) for step in scenario.steps)
    result = explore(msgspec.structs.replace(scenario, steps=at_once))
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete
