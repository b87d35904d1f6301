"""Every order of a movement with a few events: nothing is lost, doubled or out of order, and it ends."""

import pytest

from pleach.core.messages import RequestMove
from pleach.core.mobility.target import MovementTarget
from pleach.errors import ScenarioError
from pleach.explore.search import ExploreOutcome, explore
from pleach.scenario.schedule import ExploreOptions
from pleach.scenario.script import ScriptedRequests, describe, script_of
from support.explore.chains import Chain, client, crash, publish, restart, subscribe, unsubscribe

TIMERS = ExploreOptions(timers=True)
ANSWERS = "\nreply = { to = 'price > 50', with = { answer = { sequence = true } } }"


def move(name, to):
    return f"do = 'move_client'\nclient = '{name}'\nto = '{to}'"


# A question at c, an answer at b, and one who sees both moves from a to c: or one of the other two moves.
ASKING = Chain(
    clients=(
        client("p", "c"),
        client("q", "b", "price > 50") + ANSWERS,
        client("m", "a", "price > 50", "answer > 0"),
    ),
    steps=(move("m", "c"), publish("p", 60)),
)
TWO = Chain(brokers="ab", clients=(client("m", "a", "price > 50"), client("p", "b")))
CASES = {
    "a subscriber": ASKING,
    "one who answers": ASKING.but(steps=(move("q", "c"), publish("p", 60))),
    "a publisher": ASKING.but(steps=(move("p", "a"), publish("p", 60), publish("p", 70))),
    "a publisher who advertises": TWO.but(advertisements=True, steps=(move("p", "a"), publish("p", 60))),
    "one who changes its mind": TWO.but(
        steps=(move("m", "b"), unsubscribe("m", "price > 50"), subscribe("m", "price > 50"), publish("p", 60))
    ),
    "two who change places": TWO.but(steps=(move("m", "b"), move("p", "a"), publish("p", 60))),
    "to and fro": TWO.but(steps=(move("m", "b"), move("m", "a"), publish("p", 60))),
    "the target crashes": TWO.but(steps=(move("m", "b"), crash("b"), restart("b"), publish("p", 60))),
    "the source crashes": TWO.but(steps=(move("m", "b"), crash("a"), restart("a"), publish("p", 60))),
    "a swap on the way": ASKING.but(steps=(move("m", "c"), "do = 'swap'\nbrokers = ['a', 'b', 'c']")),
    "the root moves, hierarchical": ASKING.but(hierarchical=True),
}


@pytest.mark.parametrize("name", CASES)
def test_in_every_order(name):
    result = explore(CASES[name].scenario())
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


def test_the_source_may_give_up_at_any_time():
    """Where nobody knows of a bound on delays, its patience may end at any moment before the state has gone."""
    result = explore(TWO.but(steps=(move("m", "b"), publish("p", 60), publish("p", 70))).scenario(), options=TIMERS)
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


def test_a_target_that_does_not_know_what_was_delivered_is_caught(monkeypatch):
    take = MovementTarget._take
    monkeypatch.setattr(MovementTarget, "_take", lambda self, client, _: take(self, client, []))
    result = explore(ASKING.scenario())
    assert result.outcome is ExploreOutcome.FAILING
    assert "duplicate" in result.finding.kinds


def test_the_request_goes_to_where_the_client_is_by_then():
    script = script_of(ASKING.but(steps=(move("m", "c"), move("m", "b"))).scenario())
    assert script.actions == {
        "a": (ScriptedRequests(RequestMove("1", "m", ["a", "b", "c"])),),
        "c": (ScriptedRequests(RequestMove("2", "m", ["c", "b"])),),
    }
    assert describe(script.actions["a"][0]) == "operation 1: move_client m to c"
    assert {("m", "a"), ("m", "b"), ("m", "c")} <= set(script.links)


def test_instant_clients_are_refused():
    with pytest.raises(ScenarioError, match="without instant clients"):
        script_of(ASKING.scenario(), ExploreOptions(instant_clients=True))
