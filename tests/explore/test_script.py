"""Scenarios without their clock."""

import pytest

from pleach.errors import ScenarioError
from pleach.scenario import parse_scenario
from pleach.scenario.script import ACTIONS_MAX, Crashes, Publishes, Restarts, describe, script_of
from pleach.sim.run import run_scenario
from support.explore.chains import TINY, Chain, client, crash, publish, restart, subscribe, unsubscribe

LOAD = "id = 'p'\nbroker = 'a'\npublish = { every = 1.0, count = 3, attributes = { n = { sequence = true } } }"


def test_a_client_does_its_steps_and_its_load_in_its_own_order_of_time():
    script = script_of(Chain(brokers="a", clients=(LOAD,), steps=(publish("p", 60),)).scenario())
    assert [describe(action) for action in script.actions["p"]] == [
        "publish n=1",
        "publish price=60",
        "publish n=2",
        "publish n=3",
    ]


def test_the_prologue_attaches_advertises_and_subscribes():
    script = script_of(TINY.but(advertisements=True).scenario())
    assert [(who, describe(action)) for who, action in script.prologue] == [
        ("p", "attach"),
        ("p", "advertise price = 60"),
        ("s", "attach"),
        ("s", "subscribe price > 50 (s1)"),
        ("s", "subscribe price > 10 (s2)"),
    ]


def test_crashes_are_actions_of_the_broker():
    script = script_of(TINY.but(steps=(crash("a"), restart("a"))).scenario())
    assert script.actions == {"a": (Crashes(), Restarts())}


def test_a_filter_may_be_spelled_differently_when_it_is_taken_back():
    chain = TINY.but(steps=(subscribe("p", "price > 10 AND price > 20"), unsubscribe("p", "price > 20")))
    named = [action.subscription for action in script_of(chain.scenario()).actions["p"]]
    assert named == ["s1", "s1"]


def test_loads_draw_what_a_simulation_with_seed_1_draws():
    load = "id = 'p'\nbroker = 'a'\npublish = { every = 1.0, count = 3, attributes = { n = { uniform = [0, 1000] } } }"
    scenario = Chain(brokers="a", clients=(load,)).scenario()
    drawn = [f'{{"n":{a.attributes["n"]}}}' for a in script_of(scenario).actions["p"] if isinstance(a, Publishes)]
    assert drawn == [r.attributes for r in run_scenario(scenario, 1).records if r.kind == "publish"]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("do = 'cut'\nlink = ['a', 'b']", "step `cut` at 1 s needs a clock"),
        ("do = 'slow'\nlink = ['a', 'b']\nlatency = 1.0", "step `slow` at 1 s needs a clock"),
        ("do = 'drain'", "step `drain` at 1 s is not needed"),
        ("do = 'corrupt'\nbroker = 'a'\nwhat = 'table'", "step `corrupt` at 1 s has no protocol here"),
        (
            "do = 'move_client'\nclient = 'p'\nto = 'b'\nprotocol = 'reconnect'",
            "step `move_client` at 1 s by 'reconnect' has no guarantee",
        ),
        ("do = 'crash'\nbroker = 'a'", "broker 'a' stays down"),
    ],
)
def test_what_needs_a_clock_or_a_protocol_is_refused(step, says):
    with pytest.raises(ScenarioError, match=says):
        script_of(TINY.but(steps=(step,)).scenario())


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("{ to = 'price > 1', with = { a = 1 }, probability = 0.5 }", "probability 0.5: a draw would need a seed"),
        (
            "{ to = 'price > 1', with = { a = { choice = [1, 2] } } }",
            "draws 'a' of its reply: a draw would need a seed",
        ),
    ],
)
def test_replies_that_draw_are_refused(reply, says):
    chain = TINY.but(clients=(client("p", "a"), client("s", "b") + f"\nreply = {reply}"), steps=())
    with pytest.raises(ScenarioError, match=says):
        script_of(chain.scenario())


def test_lossy_links_are_refused():
    text = "name='x'\nrouting='simple'\nduration=1.0\nlinks=[['a','b']]\n[loss]\n'a-b'=0.5\n"
    with pytest.raises(ScenarioError, match="`loss` needs draws"):
        script_of(parse_scenario(text))


def test_leases_are_refused():
    text = "name='x'\nrouting='simple'\nduration=1.0\nlinks=[['a','b']]\n"
    leases = "[stabilise]\nkind='leases'\nrefresh=1.0\nperiod=2.0\n"
    with pytest.raises(ScenarioError, match="leases run out by a clock"):
        script_of(parse_scenario(text + leases))


def test_long_scripts_are_refused_before_they_are_written_out():
    many = LOAD.replace("count = 3", f"count = {ACTIONS_MAX + 1}").replace("every = 1.0", "every = 0.000001")
    with pytest.raises(ScenarioError, match="more than 200 actions"):
        script_of(Chain(brokers="a", clients=(many,)).scenario())
