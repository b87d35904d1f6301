"""Every order of a swap with a few events: the corrected protocol holds, the published one is caught."""

import msgspec
import pytest

from pleach.core.messages import RequestAdd, RequestRemove, RequestSwap
from pleach.errors import ScenarioError
from pleach.explore.search import NEVER_ENDED, STILL_LOCKED, ExploreOutcome, check, explore
from pleach.explore.transitions import BrokenError
from pleach.explore.world import World
from pleach.scenario.schedule import ExploreOptions, FireTimer, load_schedule, schedule_text
from pleach.scenario.script import ScriptedRequests, describe, script_of
from pleach.sim.replay import replay
from pleach.trace import judge
from support.explore.chains import Chain, client, crash, publish, restart

INSTANT = ExploreOptions(instant_clients=True)
SWAP = "do = 'swap'\nbrokers = ['a', 'b', 'c']"
LEAVE = "do = 'remove_broker'\nbroker = 'b'"
JOIN = "do = 'add_broker'\nbroker = 'd'\nto = 'b'"
PUBLISHED = "swaplink-published"

# One event from the outside, and who wants it at each other broker.
ONE = Chain(clients=(client("p", "a"), client("s", "b", "price > 50"), client("t", "c", "price > 10")), steps=(SWAP,))
ONE = ONE.but(steps=(SWAP, publish("p", 60)))
# S0, Property 5: a question at c, an answer at b, and one who sees both at a.
ASKING = Chain(
    clients=(
        client("p", "c"),
        client("q", "b", "price > 50") + "\nreply = { to = 'price > 50', with = { answer = { sequence = true } } }",
        client("s", "a", "price > 50", "answer > 0"),
    ),
    steps=(SWAP, publish("p", 60)),
)


def exchanged(chain, exchange):
    return msgspec.structs.replace(chain.scenario(), exchange=exchange)


# Scripts ---------------------------------------------------------------------------------------------------------


def test_what_an_operator_asks_for_is_an_action_of_the_broker_that_is_asked():
    chain = Chain(brokers="abc", clients=(client("x", "b"),), steps=(SWAP, JOIN, LEAVE))
    script = script_of(chain.scenario())
    assert script.actions == {
        "a": (ScriptedRequests(RequestSwap("1", "a", "b", "c", "swaplink")),),
        "b": (ScriptedRequests(RequestRemove("3", "b")),),
        "d": (ScriptedRequests(RequestAdd("2", "b")),),
    }
    assert describe(script.actions["a"][0]) == "operation 1: swap a b c"
    assert script.brokers == ("a", "b", "c", "d")


def test_links_that_may_be_are_there_from_the_beginning_and_those_of_clients_come_last():
    chain = Chain(brokers="abc", clients=(client("x", "b"),), steps=(SWAP, JOIN, LEAVE))
    links = script_of(chain.scenario()).links
    assert links[::2] == (
        ("a", "b"),
        ("b", "c"),
        ("a", "c"),
        ("d", "b"),
        ("x", "b"),
        ("x", "a"),
        ("x", "c"),
        ("x", "d"),
    )
    assert links[1::2] == tuple(link[::-1] for link in links[::2])


def test_instant_clients_are_refused_where_a_client_has_two_links():
    with pytest.raises(ScenarioError, match="without instant clients"):
        script_of(Chain(clients=(client("x", "c"),), steps=("do = 'remove_broker'\nbroker = 'c'",)).scenario(), INSTANT)


def test_a_broker_that_is_down_cannot_be_asked():
    chain = Chain(steps=(crash("a"), SWAP, restart("a")))
    with pytest.raises(ScenarioError, match="is down when it is asked"):
        script_of(chain.scenario())


# Swaps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [ExploreOptions(), INSTANT], ids=["links", "instant"])
@pytest.mark.parametrize("chain", [ONE, ASKING], ids=["one", "asking"])
def test_the_corrected_swap_holds_in_every_order(chain, options):
    result = explore(chain.scenario(), options=options)
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


@pytest.mark.parametrize("options", [ExploreOptions(), INSTANT], ids=["links", "instant"])
def test_the_published_swap_breaks_causal_order_and_both_worlds_agree_on_it(options, tmp_path):
    scenario = exchanged(ASKING, PUBLISHED)
    result = explore(scenario, options=options)
    assert result.finding.kinds == ("causal",)
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(result.finding.schedule))
    replayed = replay(scenario, load_schedule(path))
    assert {violation.rule.value for violation in judge(replayed.records).violations} == {"causal"}


def test_instant_clients_find_what_slow_ones_find():
    """The same failures, at fewer states: nothing that a client can see depends on how long its own link takes."""
    for exchange in ("swaplink", PUBLISHED):
        slow, instant = (explore(exchanged(ASKING, exchange), options=each) for each in (ExploreOptions(), INSTANT))
        assert set(slow.kinds) == set(instant.kinds)
        assert slow.states > 3 * instant.states


def test_joining_and_leaving_hold_in_every_order():
    joining = Chain(brokers="ab", clients=(client("p", "a"), client("s", "b", "price > 50")), steps=(JOIN,))
    for steps in ((JOIN, publish("p", 60)), (LEAVE, publish("p", 60))):
        result = explore(joining.but(steps=steps).scenario())
        assert result.outcome is ExploreOutcome.CLEAN, result.finding


def test_a_swap_during_which_a_broker_crashes_holds_in_every_order():
    result = explore(ONE.but(steps=(SWAP, publish("p", 60), crash("b"), restart("b"))).scenario(), options=INSTANT)
    assert result.outcome is ExploreOutcome.CLEAN, result.finding


# Timers ----------------------------------------------------------------------------------------------------------


def moves_named(world, state):
    return {str(world.move(number)): number for number in world.moves(state)}


def test_a_timer_fires_only_if_it_may_and_only_once():
    for options, may_ring in ((ExploreOptions(), False), (ExploreOptions(timers=True), True)):
        world = World(script_of(Chain(steps=(SWAP,)).scenario(), options))
        state = world.start
        for _ in range(2):  # the request, and Lock from a to b, who sets its lease
            state = world.take(state, world.moves(state)[0])
        rings = [name for name in moves_named(world, state) if name.startswith("FireTimerAt")]
        assert bool(rings) == may_ring
        for name in rings:
            number = moves_named(world, state)[name]
            assert world.timer(state, number) == "swaplink:lease"
            after = world.take(state, number)
            assert name not in moves_named(world, after)


def test_a_crash_forgets_timers_and_a_restart_sets_them_again():
    chain = Chain(steps=(SWAP, crash("b"), restart("b")))
    world = World(script_of(chain.scenario(), ExploreOptions(timers=True)))
    state = world.start
    for wanted in ("Act(actor='a')", "HandOver(sender='a', receiver='b')"):
        state = world.take(state, moves_named(world, state)[wanted])
    ring = "FireTimerAt(node='b', place=0)"
    assert ring in moves_named(world, state)
    state = world.take(state, moves_named(world, state)["Act(actor='b')"])
    assert ring not in moves_named(world, state)
    state = world.take(state, moves_named(world, state)["Act(actor='b')"])
    assert ring in moves_named(world, state)


def test_a_schedule_with_a_timer_is_written_read_and_replayed(tmp_path):
    scenario = Chain(steps=(SWAP,)).scenario()
    text = (
        '{"scenario":"a chain","options":{"timers":true},"steps":[{"act":"a"},{"deliver":["a","b"]},'
        '{"ring":["b","swaplink:lease"]}]}'
    )
    path = tmp_path / "schedule.json"
    path.write_text(text)
    schedule = load_schedule(path)
    assert schedule.steps[-1].move == FireTimer("b", "swaplink:lease")
    assert load_schedule(path) == schedule
    result = replay(scenario, schedule)
    assert result.quiet
    path.write_text(schedule_text(schedule))
    assert load_schedule(path) == schedule


def test_an_operation_that_is_stuck_is_a_finding():
    """A broker that swallows what it is asked for never ends it, and no timer is set that could."""
    world = World(script_of(Chain(steps=(SWAP,)).scenario()))
    asked = world.take(world.start, world.moves(world.start)[0])
    assert check(world.brokers(world.start), world.under_way(world.start)) == {}
    assert NEVER_ENDED in check(world.brokers(asked), world.under_way(asked))
    assert not check(world.brokers(asked), world.under_way(asked), is_waiting=True)
    state = asked
    while world.moves(state):
        state = world.take(state, world.moves(state)[0])
    assert check(world.brokers(state), world.under_way(state)) == {}


def test_a_broker_that_is_locked_for_what_has_ended_is_a_finding():
    world = World(script_of(Chain(steps=(SWAP,)).scenario()))
    asked = world.take(world.start, world.moves(world.start)[0])
    assert STILL_LOCKED in check(world.brokers(asked), [])


def test_a_machine_that_sends_where_no_link_can_be_is_a_finding():
    world = World(script_of(Chain(brokers="abcd", steps=(SWAP,)).scenario()))
    world._layout.queue.pop(("a", "b"))
    with pytest.raises(BrokenError, match="a has no link to b"):
        world.take(world.start, world.moves(world.start)[0])
