"""A client that loses its memory while it is moved: its new life is where it came, and has what it asks for.

What its former life wanted goes, wherever that had got to. At every message of a movement along s–p–t.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Concluded, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Approve,
    Attach,
    Halted,
    Installed,
    Layer,
    MoveAck,
    Reject,
    RequestMove,
    Resume,
    Subscribe,
    Subscribed,
)
from pleach.core.mobility.machine import Mobility
from pleach.core.mobility.phases import SourcePhase
from support.overlay.memory_loss import World

LINKS = [("s", "p"), ("p", "t")]
HOMES = {"a publisher": "p", "k": "s"}


def moved_world():
    world = World(LINKS, HOMES)
    world.ask("s", RequestMove("1", "k", ["s", "p", "t"]))
    return world


def steps_of_a_movement():
    world = moved_world()
    before = world.handled
    world.drain()
    assert world.ends == [Concluded("1")]
    return world.handled - before


@pytest.mark.parametrize("step", range(steps_of_a_movement() + 1))
def test_at_every_message(step):
    world = moved_world()
    for _ in range(step):
        world.step()
    has_left = "k" not in world.brokers["s"].sessions
    world.reborn_client("k", "s", "another")
    world.drain()
    assert world.locked == {}
    assert len(world.ends) == 1
    assert world.heard("another") == ["k"]
    assert "k" in world.brokers["s"].sessions
    if not has_left:  # else one of its name is at the target, and waits until it counts as lost
        assert [name for name, broker in world.brokers.items() if "k" in broker.sessions] == ["s"]
        assert world.heard("k") == []
        assert not [b.name for b in world.brokers.values() if b.router.destinations({"to": "k"}, "nobody")]


def prepared(others=()):
    """The state of the client has gone, and what it had asked for at last is not confirmed."""
    world = World([*LINKS, *(("s", other) for other in others)], HOMES)
    broker = world.brokers["s"]
    asked = broker.handle("k", Subscribe("late", parse_filter("late = 1")), now=0.0)
    broker.handle("", RequestMove("1", "k", ["s", "p", "t"]), now=0.0)
    broker.handle("p", Approve("1"), now=0.0)
    broker.handle("k", Halted("1"), now=0.0)
    [movement] = broker.machine(Mobility).movements
    assert movement.phase is SourcePhase.PREPARED
    return broker, {e.to: Installed(Layer.SUBSCRIPTIONS, e.message.number) for e in asked}


def to_client(effects):
    return [e.message for e in effects if isinstance(e, Send) and e.to == "k"]


def test_the_new_life_does_not_wait_for_the_outcome():
    broker, _ = prepared()
    assert to_client(broker.peer_reset("k")) == []
    assert to_client(broker.handle("k", Attach(), now=0.0))
    assert broker.handle("p", MoveAck("1"), now=0.0) == []
    effects = broker.handle("p", Reject("1", "it was given up"), now=0.0)
    assert to_client(effects) == []
    assert [e.refusal for e in effects if isinstance(e, Concluded)] == ["k has lost its memory, and begins anew"]
    assert not broker.operation


# Neighbours that lose their memory meanwhile ------------------------------------------------------------------------


def of_subscriptions(effects):
    return [message for message in to_client(effects) if isinstance(message, Subscribed)]


def test_who_has_sent_the_state_confirms_nothing_more():
    """The target does: what a neighbour owed that begins anew is not owed any more, and looks like confirmed."""
    broker, answers = prepared(others=["o"])
    assert of_subscriptions(broker.handle("p", answers["p"], now=0.0)) == []
    assert of_subscriptions(broker.peer_reset("o")) == []
    assert of_subscriptions(broker.handle("p", MoveAck("1"), now=0.0)) == []


def test_if_the_client_stays_it_is_confirmed_here_once_all_is_answered():
    broker, answers = prepared(others=["o"])
    effects = broker.handle("p", Reject("1", "no"), now=0.0)
    assert to_client(effects) == [Resume("1", "s")]
    assert of_subscriptions(broker.handle("p", answers["p"], now=0.0)) == []
    assert of_subscriptions(broker.handle("o", answers["o"], now=0.0)) == [Subscribed("late")]


def test_and_at_once_where_all_has_been_answered_meanwhile():
    broker, answers = prepared(others=["o"])
    for neighbour, answer in answers.items():
        assert of_subscriptions(broker.handle(neighbour, answer, now=0.0)) == []
    assert to_client(broker.handle("p", Reject("1", "no"), now=0.0)) == [Resume("1", "s"), Subscribed("late")]
