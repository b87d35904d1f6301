"""A client that is asked to halt says nothing more, forgets nothing, and goes on where it is told to."""

from __future__ import annotations

import pytest

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import LinkDown, LinkUp, Observe, Observed, Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertise,
    Attach,
    Deliver,
    Halt,
    Halted,
    Publish,
    Resume,
    Subscribe,
    Unsubscribe,
)

WANTED = parse_filter("x > 1")
EVENT = Event(EventId("p", 0, 1), {"x": 2})


def sent(effects):
    return [(e.to, e.message) for e in effects if isinstance(e, Send)]


@pytest.fixture
def halted():
    client = ClientMachine("k", "here")
    client.attach()
    assert sent(client.handle("here", Halt("1"), now=0.0)) == [("here", Halted("1"))]
    return client


def test_what_the_application_asks_for_waits_and_keeps_its_order(halted):
    assert not halted.may_publish
    assert not sent(halted.publish({"x": 1}))
    assert not sent(halted.subscribe("s", WANTED))
    assert not sent(halted.unsubscribe("s"))
    resumed = sent(halted.handle("here", Resume("1", "here"), now=0.0))
    assert [(to, type(message)) for to, message in resumed] == [
        ("here", Publish),
        ("here", Subscribe),
        ("here", Unsubscribe),
    ]
    assert halted.may_publish


def test_it_goes_on_elsewhere(halted):
    halted.publish({"x": 1})
    assert not halted.handle("there", Deliver(EVENT), now=0.0), "this waits until the client is there"
    effects = halted.handle("here", Resume("1", "there", "there:1"), now=0.0)
    moved, up, down, delivered, published = effects
    assert (moved.kind, moved.detail) == (Observed.MOVE, "from here to there")
    assert (up, down) == (LinkUp("there", "there:1"), LinkDown("here"))
    assert delivered == Observe(Observed.DELIVER, event=EVENT)
    assert published.to == "there"
    assert halted.broker == "there"


def test_one_that_is_to_halt_again_as_soon_as_it_comes_says_nothing_in_between(halted):
    halted.publish({"x": 1})
    halted.handle("there", Halt("2"), now=0.0)
    assert sent(halted.handle("here", Resume("1", "there"), now=0.0)) == [("there", Halted("2"))]
    resumed = sent(halted.handle("there", Resume("2", "there"), now=0.0))
    assert [(to, type(message)) for to, message in resumed] == [("there", Publish)]


def test_it_survives_a_restart(halted):
    halted.publish({"x": 1})
    again = ClientMachine("k", "here")
    again.restore(halted.capture())
    assert len(sent(again.handle("here", Resume("1", "here"), now=0.0))) == 1


def test_a_broker_that_lost_its_memory_has_forgotten_that_the_client_should_halt(halted):
    """Events still wait for the advertisements that they need."""
    halted.advertise("a", WANTED)
    halted.subscribe("s", WANTED)
    halted.publish({"x": 2})
    again = sent(halted.peer_reset("here"))
    assert [type(message) for _, message in again] == [Attach, Subscribe, Advertise]
    assert not halted.may_publish
