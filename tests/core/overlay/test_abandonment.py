"""An operator abandons an operation, after every message of it, at each broker that takes part, also while one is away.

Whatever the answer is: in the end nobody is locked, the tree is the one before or the one after, and each event has
come once, in order, to whoever wants it.
"""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.effects import Concluded
from pleach.core.messages import (
    OPERATOR,
    RequestAbandon,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
)
from pleach.core.overlay.abandonment import ABANDONED
from pleach.core.overlay.swaplink.failures import LEASE
from pleach.errors import ProtocolError
from pleach.trace import judge
from support.contract.judgement import disagreements
from support.overlay.judgement import no_tree
from support.overlay.memory_loss import World
from support.thorough import FACTOR

LINKS = [("1", "2"), ("2", "3"), ("3", "4"), ("2", "o2"), ("3", "o3")]
HOMES = {"at 1": "1", "at o2": "o2", "at 3": "3", "at 4": "4", "at o3": "o3"}
REQUESTS = {
    "swap": RequestSwap("x", "1", "2", "3"),
    "exchange": RequestExchange("x", ["1", "2", "3", "4"], 1, "advanced-coordinated"),
    "exchange by path": RequestExchange("x", ["1", "2", "3", "4"], 2, "path"),
    "remove": RequestRemove("x", "4"),
    "add": RequestAdd("x", "3"),
    "move": RequestMove("x", "at 1", ["1", "2", "3", "4"]),
}
OTHERS = {  # brokers whose links the operation needs, besides the one that is asked
    "swap": ("2", "3"),
    "exchange": ("2", "3", "4"),
    "exchange by path": ("2", "3", "4"),
    "remove": ("3",),
    "add": ("3",),
    "move": ("2", "3", "4"),
}
kinds = pytest.mark.parametrize("kind", REQUESTS)


def begin_of(kind):
    return {"remove": "4", "add": "new"}.get(kind, "1")


def begun(kind, stream=None):
    world = World(LINKS, HOMES, stream)
    if kind == "add":
        world.brokers["new"] = world.make_broker("new")
        world.begin("at new", "new")
        world.drain()
    world.ask(begin_of(kind), REQUESTS[kind])
    return world


def moments(kind):
    world, count = begun(kind), 0
    while not any(end.operation == "x" for end in world.ends):
        assert world.advance()
        count += 1
    return count


def abandon(world, broker, name):
    """Returns why not; empty where it was abandoned."""
    world.ask(broker, RequestAbandon(name, "x"))
    return next(end.refusal for end in world.ends if end.operation == name)


def publish_everywhere(world, stream):
    for client in sorted(world.clients):
        if stream.random() < 0.3:
            world.perform(client, world.clients[client].publish({"to": stream.choice(sorted(world.clients))}))


def flaws(world):
    """At the end: whoever is not in the tree was not added, or has left."""
    found = [f"{name} is locked for {operation}" for name, operation in world.locked.items()]
    inside = {name: broker for name, broker in world.brokers.items() if broker.router.neighbours}
    found += world.errors + no_tree(inside) + disagreements(inside)
    found += [str(violation) for violation in judge(world.recorder.records, "causal").violations[:3]]
    at_home = [name for name, client in world.clients.items() if client.broker in inside]
    found += [f"{name} is heard by {heard}" for name in at_home if (heard := world.heard(name)) != [name]]
    return found


@kinds
def test_at_each_broker_after_each_message(kind):
    found, undone = {}, 0
    for step in range(moments(kind) + 1):
        for broker in sorted(begun(kind).brokers):
            world = begun(kind)
            for _ in range(step):
                world.advance()
            has_ended = bool(world.ends)
            why_not = abandon(world, broker, "y")
            is_locked = not why_not and kind != "move" and broker in world.locked
            world.drain()
            ends = [end for end in world.ends if end.operation == "x"]
            if wrong := flaws(world):
                found[step, broker] = wrong
            assert len(ends) == 1, (step, broker, why_not, ends)
            assert ends == [Concluded("x", ABANDONED)] if not why_not else ends == [Concluded("x")], (step, broker)
            assert not (has_ended and not why_not)
            assert not (is_locked and broker == begin_of(kind)), (step, broker)
            undone += not why_not
    assert found == {}
    assert undone


@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind != "exchange by path"])  # which doubles by itself
def test_in_any_order_under_load_also_while_another_one_is_away(kind):
    undone = 0
    for seed in range(60 * FACTOR):
        stream = Random(f"{kind}/{seed}")
        world = begun(kind, stream)
        away = stream.choice((*OTHERS[kind], ""))
        for _ in range(stream.randrange(moments(kind) + 1)):
            publish_everywhere(world, stream)
            world.advance()
        world.away = {away} - {""}
        for _ in range(stream.randrange(20)):
            publish_everywhere(world, stream)
            world.advance()
        at = stream.choice([name for name in world.brokers if name != away])
        undone += not abandon(world, at, "y")
        for _ in range(stream.randrange(40)):
            publish_everywhere(world, stream)
            world.advance()
        world.away = set()
        world.drain()
        assert flaws(world) == [], (seed, away, at)
    assert undone


@kinds
def test_a_broker_without_which_nothing_goes_on_is_not_waited_for_any_more(kind):
    """It goes away before it has heard of the operation; whoever was asked is free at once, for others."""
    world = begun(kind)
    world.away = {"3" if kind in ("remove", "add") else "2"}
    while world.step():
        pass
    first = begin_of(kind)
    opened = [each for each in world.brokers[first].open_operations if each.name.startswith("x")]
    assert [each.why_not for each in opened] == [""]
    assert abandon(world, first, "y") == ""
    assert first not in world.locked or kind == "move"
    if kind == "add":
        world.ask("new", RequestAdd("z", "4"))
        world.drain()
        assert world.ends[-1] == Concluded("z")
    world.away = set()
    world.drain()
    assert flaws(world) == []


def test_a_copy_is_the_event_where_what_came_straight_is_dropped():
    """3 has flooded an event, 2 has passed a copy on behind its answer, and 1 gives up before it hears that."""
    world = begun("swap")
    for ends in (("1", "2"), ("2", "3"), ("3", "2")):
        world.hand_over(*ends)
    world.perform("at 3", world.clients["at 3"].publish({"to": "at 1"}))
    world.hand_over("at 3", "3")
    world.hand_over("3", "2")
    assert [type(each).__name__ for each in world.queues["2", "1"]] == ["LockAck", "Marked"]
    assert [type(each).__name__ for each in world.queues["3", "1"]] == ["Marked"]
    assert abandon(world, "1", "y") == ""
    world.drain()
    assert [client for client, _ in world.deliveries()] == ["at 1"]
    assert flaws(world) == []


@pytest.mark.parametrize("by", ["an operator", "its lease"])
def test_whoever_gives_a_swap_up_and_forgets_it_before_all_have_heard_locks_nobody(by):
    """3 has undone it, and 1 hears of a new life of 2 instead of `Abort`: it asks 3."""
    world = begun("swap")
    for ends in (("1", "2"), ("2", "3"), ("3", "2"), ("2", "1")):
        world.hand_over(*ends)
    assert world.brokers["1"].open_operations[0].phase == "swap a swapping"
    if by == "an operator":
        assert abandon(world, "2", "y") == ""
    else:
        world.perform("2", world.brokers["2"].handle_timer(LEASE, now=world.now))
    world.hand_over("2", "3")
    world.reborn_broker("2")
    assert "1" in world.locked
    world.drain()
    assert world.ends[-1] == Concluded("x", "2 lost its memory meanwhile")
    assert world.locked == {}
    assert [each for broker in world.brokers.values() for each in broker.open_operations] == []
    for client in world.clients:
        assert world.heard(client) == [client]


@pytest.mark.parametrize("operation", ["x", "z"])
def test_whoever_was_to_join_may_ask_there_again_at_once(operation):
    world = begun("add")
    world.hand_over("new", "3")  # which has taken it on, and told it so
    assert abandon(world, "new", "y") == ""
    world.ask("new", RequestAdd(operation, "3"))
    world.drain()
    assert world.ends[-1] == Concluded(operation)
    assert "new" in world.brokers["3"].router.neighbours
    assert flaws(world) == []


def test_what_was_put_off_is_not_tried_again():
    world = begun("swap")
    world.ask("1", RequestSwap("w", "1", "2", "o2"))
    assert [each.phase for each in world.brokers["1"].open_operations if each.name == "w"] == ["put off 1 times"]
    world.ask("1", RequestAbandon("y", "w"))
    assert world.ends[-2:] == [Concluded("w", ABANDONED), Concluded("y")]
    world.drain()
    assert [end.operation for end in world.ends].count("w") == 1
    assert flaws(world) == []


def test_what_nobody_knows_of_is_refused_and_others_may_not_ask():
    world = World(LINKS, HOMES)
    assert abandon(world, "1", "y") == "1 takes part in no operation x"
    with pytest.raises(ProtocolError, match="only operators abandon operations"):
        world.brokers["1"].handle("2", RequestAbandon("y", "x"), now=0.0)


def test_an_operation_that_only_goes_forward_says_whom_it_waits_for():
    world = begun("swap")
    while "1" not in world.brokers["3"].router.neighbours:
        assert world.advance()
    assert "only goes forward: it waits for" in abandon(world, "2", "y")
    assert world.brokers["2"].open_operations[0].waits_for == ("1", "3")


@pytest.mark.parametrize("step", range(3))
def test_the_swap_as_printed_is_not_given_up_where_that_would_lose_events(step):
    world = World(LINKS, HOMES)
    world.ask("1", RequestSwap("x", "1", "2", "3", "swaplink-published"))
    for _ in range(step):
        world.advance()
    assert "as S0 prints it" in abandon(world, "1", "y")


def test_abandoned_operations_are_in_the_state():
    """A broker that is started again goes on dropping what comes late of it."""
    world = begun("swap")
    abandon(world, "1", "y")
    before = world.brokers["1"].capture()
    again = world.make_broker("1")
    again.restore(before)
    assert again.capture() == before
    assert OPERATOR not in world.queues
