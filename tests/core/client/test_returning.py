"""A client that comes back to a stand-in of its broker."""

from pleach.core.client.returning import ReturningClient
from pleach.core.effects import Observe, Observed, Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertised,
    Deliver,
    Publish,
    Published,
    PublishRefused,
    Returning,
    Unsubscribe,
    Unsubscribed,
    decode,
    encode,
)

WANTED = parse_filter("topic = 'a'")


def client():
    made = ReturningClient("c", "x")
    made.attach()
    return made


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Send)]


def tell(machine, message):
    return machine.handle("x", message, now=0.0)


def event(sequence, publisher="p"):
    return Event(EventId(publisher, 0, sequence), {"topic": "a"})


def test_it_says_what_it_has_and_sends_again_what_was_not_confirmed():
    machine = client()
    machine.subscribe("s", WANTED)
    for _ in range(3):
        machine.publish({"topic": "a"})
    tell(machine, Published(EventId("c", 0, 1)))
    tell(machine, Deliver(event(4)))
    first, *rest = sent(machine.peer_reset("x"))
    assert first == Returning(True, [EventId("p", 0, 4)], {"s": WANTED}, {}, again=[EventId("c", 0, 3)])
    assert [message.event.id.sequence for message in rest] == [2, 3]
    assert [message.event.id.sequence for message in sent(machine.peer_reset("x"))[1:]] == [2, 3]


def test_it_says_what_it_has_heard_of():
    machine = client()
    machine.hear([EventId("p", 0, 4), EventId("p", 0, 3)])
    again = client()
    again.restore(machine.capture())
    (said,) = sent(again.peer_reset("x"))
    assert (said.marks, said.heard) == ([], [EventId("p", 0, 4)])


def test_a_return_travels():
    message = Returning(False, [EventId("p", 0, 4)], {"s": WANTED}, {"a": WANTED})
    assert decode(encode(message)) == message


def test_one_confirmation_may_stand_for_many():
    machine = client()
    for _ in range(3):
        machine.publish({"topic": "a"})
    tell(machine, Published(EventId("c", 0, 3), 3))
    assert machine.unconfirmed == []


def test_what_was_refused_is_not_sent_again():
    machine = client()
    machine.publish({"topic": "a"})
    tell(machine, PublishRefused(EventId("c", 0, 1), "no"))
    assert machine.unconfirmed == []


def test_what_came_before_is_dropped_after_a_return_only():
    machine = client()
    assert [e.kind for e in tell(machine, Deliver(event(2)))] == [Observed.DELIVER]
    assert [e.kind for e in tell(machine, Deliver(event(2)))] == [Observed.DELIVER]  # the oracle shall see it
    machine.peer_reset("x")
    assert tell(machine, Deliver(event(2))) == [Observe(Observed.STATE, detail="dropped: p/0/2 came before")]
    assert [e.kind for e in tell(machine, Deliver(event(3)))] == [Observed.DELIVER]


def test_publications_wait_until_the_stand_in_knows_the_advertisements():
    machine = client()
    machine.advertise("a", WANTED)
    tell(machine, Advertised("a"))
    machine.publish({"topic": "a"})
    assert sent(machine.peer_reset("x")) == [Returning(True, [], {}, {"a": WANTED}, again=[EventId("c", 0, 1)])]
    assert [type(message) for message in sent(tell(machine, Advertised("a")))] == [Publish]


def test_a_subscription_that_was_being_ended_is_ended_at_the_stand_in():
    machine = client()
    machine.subscribe("s", WANTED)
    machine.unsubscribe("s")
    assert sent(machine.peer_reset("x")) == [Returning(True, [], {}, {}), Unsubscribe("s")]
    tell(machine, Unsubscribed("s"))
    assert sent(machine.peer_reset("x")) == [Returning(True, [], {}, {})]


def test_another_brokers_fate_does_not_concern_it():
    assert client().peer_reset("y") == ()


def test_its_memory_survives_a_restart():
    machine = client()
    machine.publish({"topic": "a"})
    tell(machine, Deliver(event(4)))
    again = ReturningClient("c", "x")
    again.restore(machine.capture())
    assert sent(again.peer_reset("x")) == sent(machine.peer_reset("x"))
