"""A broker that has no disk loses its memory in the middle of an operation, after every message of it.

Afterwards nobody is locked, every client gets what it wants, and gets it once.
"""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.effects import Concluded
from pleach.core.events.language import parse_filter
from pleach.core.messages import Handover, RequestAdd, RequestRemove, RequestSwap, Said
from pleach.core.overlay.membership.machine import Membership
from pleach.trace import RecordKind
from support.contract.judgement import disagreements
from support.overlay.memory_loss import World
from support.thorough import FACTOR

LINKS = [("a", "b"), ("a", "o")]
HOMES = {"a publisher": "o", "k": "b", "kk": "b"}


def removing(stream=None):
    world = World(LINKS, HOMES, stream)
    world.ask("b", RequestRemove("1", "b"))
    return world


def steps_until_done(make):
    world, count = make(), 0
    while Concluded("1") not in world.ends:
        assert world.step()
        count += 1
    return count


def check(world):
    assert world.locked == {}
    assert world.errors == []
    assert world.unheard() == []
    for client in ("k", "kk"):
        assert world.heard(client) == [client]
    deliveries = world.deliveries()
    assert len(set(deliveries)) == len(deliveries)


@pytest.mark.parametrize("step", range(steps_until_done(removing)))
@pytest.mark.parametrize("broker", ["a", "b"])
def test_one_of_the_two_while_the_other_leaves(broker, step):
    world = removing()
    for _ in range(step):
        world.step()
    world.reborn_broker(broker)
    world.drain()
    check(world)


def reborn_heir(world):
    """The new life of a is told of the tree as it is."""
    if Concluded("1") in world.ends:
        world.links = LINKS[1:]
    world.reborn_broker("a")


@pytest.mark.parametrize("seed", range(60 * FACTOR))
def test_whoever_publishes_meanwhile_hears_what_became_of_it_or_that_this_is_not_known(seed):
    stream = Random(f"passed on/{seed}")
    world = removing(stream)
    for _ in range(stream.randrange(20)):
        if stream.random() < 0.4:
            client = stream.choice(("k", "kk"))
            world.perform(client, world.clients[client].publish({"to": stream.choice(("k", "kk"))}))
        world.step()
    reborn_heir(world)
    world.drain()
    check(world)


def passed_on():
    """k has published at b, which has handed it over, and passed the event on to a."""
    world = removing()
    while not world.brokers["b"].machine(Membership).handed_to:
        assert world.step()
    world.perform("k", world.clients["k"].publish({"to": "nobody"}))
    world.hand_over("k", "b")
    assert [type(each) for each in world.queues["b", "a"]] == [Handover, Said]
    return world


def test_what_was_passed_on_to_an_heir_that_forgets_is_in_doubt():
    world = passed_on()
    assert world.clients["k"].broker == "b"
    world.reborn_broker("a")
    world.drain()
    doubts = [record for record in world.recorder.records if record.detail.startswith("in doubt")]
    assert [(record.node, record.detail) for record in doubts] == [
        ("k", "in doubt: b passed it on to a, which has lost its memory since")
    ]
    assert doubts[0].event == "k/2/1"
    assert [end.refusal for end in world.ends] == ["a has lost its memory meanwhile; ask again"]


def test_who_was_told_where_to_go_hears_of_the_new_life_there_and_nothing_more_from_the_former_broker():
    world = passed_on()
    while not world.brokers["b"].machine(Membership).departing:
        assert world.step()
    told = list(world.queues["b", "k"])
    world.reborn_broker("a")
    assert list(world.queues["b", "k"]) == told
    world.drain()
    check(world)


def test_what_was_passed_on_to_an_heir_that_goes_on_is_confirmed():
    world = passed_on()
    world.drain()
    kinds = [record.kind for record in world.recorder.records if record.event == "k/2/1"]
    assert kinds == [RecordKind.PUBLISH, RecordKind.PUBLISH_ACK]


@pytest.mark.parametrize("seed", range(20 * FACTOR))
def test_the_heir_after_the_other_has_left_and_before_clients_have_come(seed):
    """They have said farewell, so that nobody but they themselves can tell the heir what they want."""
    world = removing(Random(f"gone/{seed}"))
    while world.clients["k"].broker == "b" or world.clients["kk"].broker == "b":
        assert world.step()
    are_on_their_way = [client for client in ("k", "kk") if any(world.queues[client, "a"])]
    while any(world.queues[client, "b"] for client in ("k", "kk")) or world.queues["b", "a"]:
        ends = next(ends for ends in (("k", "b"), ("kk", "b"), ("b", "a"), ("a", "b")) if world.queues.get(ends))
        world.hand_over(*ends)
    assert world.ends == [Concluded("1")]
    assert are_on_their_way
    reborn_heir(world)
    world.drain()
    check(world)


@pytest.mark.parametrize("seed", range(40 * FACTOR))
def test_in_any_order_and_also_the_heir_again_while_it_learns_whose_heir_it_is(seed):
    stream = Random(f"heirs/{seed}")
    world = removing(stream)
    for _ in range(stream.randint(1, 2)):
        for _ in range(stream.randrange(10)):
            world.step()
        if world.brokers["b"].operation:  # else it has left, and a knows it
            world.reborn_broker("a")
    world.drain()
    check(world)


@pytest.mark.parametrize("step", [0, 1])
def test_the_neighbour_to_be_of_one_that_joins(step):
    world = World([("a", "o")], {"a publisher": "o"})
    world.brokers["n"] = world.make_broker("n")
    world.ask("n", RequestAdd("1", "a"))
    world.begin("k", "n")
    for _ in range(step):
        world.step()
    world.reborn_broker("a")
    world.drain()
    assert [end.refusal for end in world.ends] == ["a has lost its memory meanwhile; ask again"]
    assert world.locked == {}
    world.ask("n", RequestAdd("2", "a"))
    world.drain()
    assert world.ends[-1] == Concluded("2")
    assert world.heard("k") == ["k"]


# Swaps: a–b–c becomes a–c–b ----------------------------------------------------------------------------------------

CHAIN = [("a", "b"), ("b", "c"), ("a", "oa"), ("b", "ob"), ("c", "oc")]
AROUND = {f"at {broker}": broker for _, broker in CHAIN[2:]}
SWAP_STEPS = 14


@pytest.mark.parametrize("seed", range(20 * FACTOR))
@pytest.mark.parametrize("broker", ["a", "b", "c"])
def test_one_of_a_swap(broker, seed):
    """Nobody else is locked, and the other two agree on whether they are linked: undone, or done."""
    stream = Random(f"swap/{broker}/{seed}")
    world = World(CHAIN, AROUND, stream)
    world.is_slow_to_meet = stream.random() < 0.5
    world.ask("a", RequestSwap("1", "a", "b", "c"))
    for _ in range(stream.randrange(SWAP_STEPS)):
        if stream.random() < 0.3:
            client = stream.choice(sorted(AROUND))
            world.perform(client, world.clients[client].publish({"to": stream.choice(sorted(AROUND))}))
        world.step()
    world.reborn_broker(broker)
    world.drain()
    assert world.locked == {}
    one, other = sorted({"a", "b", "c"} - {broker})
    are_linked = [
        other in world.brokers[one].router.neighbours,
        one in world.brokers[other].router.neighbours,
    ]
    assert are_linked[0] == are_linked[1]
    deliveries = world.deliveries()
    assert len(set(deliveries)) == len(deliveries)


def test_c_closes_for_an_a_that_forgets_after_b_had_it_from_a_itself():
    """c has not heard of b's close(ab) when it hears of a: its own comes to b after the swap is over there."""
    world = World(CHAIN, AROUND)
    world.ask("a", RequestSwap("1", "a", "b", "c"))
    for ends in (("a", "b"), ("b", "c"), ("c", "b"), ("b", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")):
        world.hand_over(*ends)
    assert "b" not in world.locked
    world.reborn_broker("a")
    world.hand_over("c", "b")
    assert world.errors == []
    world.drain()
    assert world.locked == {}


@pytest.mark.parametrize(("lost", "left"), [("a", "c"), ("c", "a")])
def test_an_event_that_b_holds_until_the_swap_is_decided_goes_on_then(lost, left):
    world = World(CHAIN, AROUND)
    world.ask("a", RequestSwap("1", "a", "b", "c"))
    for ends in (("a", "b"), ("b", "c"), ("c", "b"), ("b", "a"), ("a", "b")):
        world.hand_over(*ends)
    world.reborn_broker(lost)
    world.perform("at ob", world.clients["at ob"].publish({"to": f"at o{left}"}))
    world.hand_over("at ob", "ob")
    world.hand_over("ob", "b")
    assert world.brokers["b"].seam.held_count == 1
    world.drain()
    assert world.brokers["b"].seam.held_count == 0
    assert [client for client, _ in world.deliveries()] == [f"at o{left}"]


@pytest.mark.parametrize("has_adopted", [False, True], ids=["before", "after it adopted the new routing"])
def test_what_the_new_life_of_c_tells_b_counts_once_the_swap_is_undone(has_adopted):
    """b holds what c tells until the tables of a and b are the new ones; so it did with what the former life told."""
    world = World(CHAIN, AROUND)
    world.ask("a", RequestSwap("1", "a", "b", "c"))
    for ends in (("a", "b"), ("b", "c"), ("c", "b"), ("b", "a"), ("a", "b")):
        world.hand_over(*ends)
    if has_adopted:
        world.perform("at oc", world.clients["at oc"].subscribe("t", parse_filter("to = 'nobody'")))
        for ends in (("b", "c"), ("at oc", "oc"), ("oc", "c"), ("c", "b")):
            world.hand_over(*ends)
        assert world.brokers["b"].seam.held_count == 1
        world.perform("at oc", world.clients["at oc"].unsubscribe("t"))
        world.hand_over("at oc", "oc")
    world.reborn_broker("c")
    for ends in (("oc", "c"), ("c", "b")):
        world.hand_over(*ends)
    world.drain()
    assert world.ends == [Concluded("1", "c lost its memory meanwhile")]
    assert disagreements(world.brokers) == []
    assert world.heard("at oc") == ["at oc"]
