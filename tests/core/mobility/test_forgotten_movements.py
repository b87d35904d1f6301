"""A broker that has no disk loses its memory while a client is moved along s–p–q–t: each of them, after every message.

Afterwards nobody is locked, the client is at one broker, and gets what it wants there, once; and it can be moved again.
"""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.effects import Concluded
from pleach.core.events.language import parse_filter
from pleach.core.messages import RequestMove
from support.overlay.memory_loss import NEW_LIFE, World
from support.thorough import FACTOR

LINKS = [("s", "p"), ("p", "q"), ("q", "t"), ("p", "o")]
PATH = ["s", "p", "q", "t"]
HOMES = {"a publisher": "o", "k": "s"}
STEPS = 30  # some more than a movement takes


def moving(stream=None):
    world = World(LINKS, HOMES, stream)
    world.ask("s", RequestMove("1", "k", PATH))
    return world


def homes(world):
    return [name for name, broker in world.brokers.items() if "k" in broker.sessions]


def move_to(world, to):
    """Move the client wherever it is not."""
    home = world.clients["k"].broker
    path = PATH[PATH.index(home) :] if to == "t" else PATH[PATH.index(home) :: -1]
    world.ask(home, RequestMove("2", "k", path))
    world.drain()
    assert world.ends[-1] == Concluded("2")


def check(world, lost):
    assert world.locked == {}
    assert world.errors == []
    assert world.unheard() == []
    assert world.heard("k") == ["k"]
    if lost != "s":  # else one of its name may be at the target
        assert homes(world) == [world.clients["k"].broker]
        move_to(world, "s" if world.clients["k"].broker == "t" else "t")
        assert world.heard("k") == ["k"]
    deliveries = world.deliveries()
    assert len(set(deliveries)) == len(deliveries)


@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("broker", PATH)
def test_each_broker_after_every_message(broker, step):
    world = moving()
    for _ in range(step):
        world.step()
    world.reborn_broker(broker)
    world.drain()
    check(world, broker)


@pytest.mark.parametrize("seed", range(60 * FACTOR))
def test_in_any_order_while_events_flow(seed):
    stream = Random(f"forgotten/{seed}")
    world = moving(stream)
    for _ in range(stream.randrange(STEPS)):
        if stream.random() < 0.2:
            world.perform("a publisher", world.clients["a publisher"].publish({"to": "k"}))
        if stream.random() < 0.2:
            world.perform("k", world.clients["k"].publish({"to": "k"}))
        world.step()
    lost = stream.choice(PATH)
    world.reborn_broker(lost)
    world.drain()
    check(world, lost)


# The target forgets what it has promised, before the client has come ----------------------------------------------


def sent_to_one_that_forgot(*said):
    """The client is told to go to t, and t begins anew. `said`: what the client says meanwhile, given the client."""
    world = moving()
    while world.clients["k"].broker == "s":
        assert world.step()
    for say in said:
        world.perform("k", say(world.clients["k"]))
    world.reborn_broker("t")
    assert "k" not in world.brokers["t"].sessions
    world.drain()
    return world


def test_a_client_that_only_listens_is_heard_of_there_and_gets_what_it_wants():
    world = sent_to_one_that_forgot()
    assert world.ends == [Concluded("1")]
    assert homes(world) == ["t"]
    assert world.heard("k") == ["k"]


def test_what_it_asks_for_on_the_way_it_gets_and_what_it_takes_back_it_does_not():
    asked = parse_filter("to = 'other'")
    world = sent_to_one_that_forgot(
        lambda client: client.subscribe("s2", asked), lambda client: client.unsubscribe("s")
    )
    assert world.errors == []
    assert world.brokers["t"].sessions.subscriptions("k") == {"s2": asked}
    assert (world.heard("other"), world.heard("k")) == (["k"], [])


def test_what_it_publishes_on_the_way_is_in_doubt_as_at_any_broker_that_forgot():
    world = sent_to_one_that_forgot(lambda client: client.publish({"to": "nobody"}))
    assert world.unheard() == []


def test_one_that_was_sent_to_a_life_that_goes_on_asks_for_nothing_again():
    world = moving()
    world.drain()
    assert (homes(world), world.heard("k")) == (["t"], ["k"])
    assert NEW_LIFE not in [record.detail for record in world.recorder.records]
