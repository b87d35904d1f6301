"""The client machine by itself: numbering, waiting for advertisements, and replies that it must not get."""

import pytest

from pleach.client import Client
from pleach.effects import LinkDown, LinkUp, Observe, Observed, Send
from pleach.errors import EventError, ProtocolError
from pleach.events.event import EventId
from pleach.events.language import parse_filter
from pleach.messages import (
    Advertise,
    Advertised,
    Deliver,
    Farewell,
    Install,
    Layer,
    Publish,
    Published,
    PublishRefused,
    Redirect,
    Refused,
    Subscribe,
    Subscribed,
    Unadvertise,
)


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Send)]


def observed(effects):
    return [effect.kind for effect in effects if isinstance(effect, Observe)]


def test_events_are_counted_from_one():
    client = Client("c", "b", incarnation=3)
    ids = [sent(client.publish({"x": x}))[0].event.id for x in range(3)]
    assert ids == [EventId("c", 3, 1), EventId("c", 3, 2), EventId("c", 3, 3)]


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 2**64, float("nan"), float("inf"), "\ud800", 1j])
def test_a_bad_value_is_an_error_and_uses_up_no_number(value):
    client = Client("c", "b")
    with pytest.raises(EventError, match="'x'"):
        client.publish({"x": value})
    assert sent(client.publish({"x": 1}))[0].event.id.sequence == 1


def test_publishing_waits_for_the_advertisement_and_keeps_its_order():
    client = Client("c", "b")
    assert [type(m) for m in sent(client.advertise("a", parse_filter("x > 0")))] == [Advertise]
    first = client.publish({"x": 1})
    assert observed(first) == [Observed.PUBLISH]
    assert not sent(first)
    assert not sent(client.unadvertise("a"))
    released = sent(client.handle("b", Advertised("a"), now=1.0))
    assert [type(m) for m in released] == [Publish, Unadvertise]


def test_two_advertisements_must_both_be_in_effect():
    client = Client("c", "b")
    client.advertise("a1", parse_filter("x > 0"))
    client.advertise("a2", parse_filter("x < 0"))
    client.publish({"x": 1})
    assert not sent(client.handle("b", Advertised("a1"), now=1.0))
    assert len(sent(client.handle("b", Advertised("a2"), now=1.0))) == 1


def test_a_refused_advertisement_does_not_block_for_ever():
    client = Client("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    client.publish({"x": 1})
    effects = client.handle("b", Refused("a", "no"), now=1.0)
    assert observed(effects) == [Observed.STATE]
    assert len(sent(effects)) == 1


def test_replies_become_observations():
    client = Client("c", "b")
    event = sent(client.publish({"x": 1}))[0].event
    assert observed(client.subscribe("s", parse_filter("x = 1"))) == [Observed.SUBSCRIBE]
    for message, kind in [
        (Deliver(event), Observed.DELIVER),
        (Published(event.id), Observed.PUBLISH_ACK),
        (PublishRefused(event.id, "no"), Observed.PUBLISH_FAIL),
        (Subscribed("s"), Observed.SUBSCRIBE_ACK),
    ]:
        assert observed(client.handle("b", message, now=0.0)) == [kind]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_another_broker_says_waits_until_the_client_is_sent_there(is_restarted):
    """S0 §IV-C: the client holds what comes from a until close(ab); what it says then goes to a."""
    client = Client("c", "b")
    event = sent(client.publish({"x": 1}))[0].event
    assert client.handle("a", Deliver(event), now=0.0) == []
    if is_restarted:
        state, client = client.capture(), Client("c", "b")
        client.restore(state)
    effects = client.handle("b", Redirect("a", "there"), now=0.0)
    assert effects[:3] == [LinkUp("a", "there"), Send("b", Farewell()), LinkDown("b")]
    assert observed(effects) == [Observed.DELIVER]
    assert client.broker == "a"
    assert [effect.to for effect in client.publish({"x": 2}) if isinstance(effect, Send)] == ["a"]


@pytest.mark.parametrize(
    "message",
    [Install(Layer.SUBSCRIPTIONS, 1, "", parse_filter("TRUE")), Subscribe("s", parse_filter("TRUE"))],
)
def test_messages_for_brokers_are_an_error(message):
    with pytest.raises(ProtocolError, match="brokers do not send this"):
        Client("c", "b").handle("b", message, now=0.0)


def test_what_is_captured_is_restored():
    client = Client("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    client.publish({"x": 1})
    again = Client("c", "b")
    again.restore(client.capture())
    assert again.capture() == client.capture()
    released = sent(again.handle("b", Advertised("a"), now=1.0))
    assert released[0].event.id == EventId("c", 0, 1)
    assert sent(again.publish({"x": 2}))[0].event.id == EventId("c", 0, 2)


def test_an_early_confirmation_is_marked_as_such():
    client = Client("c", "b")
    client.subscribe("s", parse_filter("x = 1"), network_wide=False)
    early = client.handle("b", Subscribed("s"), now=0.0)
    client.subscribe("t", parse_filter("x = 1"))
    full = client.handle("b", Subscribed("t"), now=0.0)
    assert [effect.detail for effect in (*early, *full)] == ["local", ""]


def test_an_advertisement_does_not_overtake_its_own_withdrawal():
    """Advertised, taken back and advertised again in one breath: the last word is what counts."""
    client = Client("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    assert not sent(client.unadvertise("a"))
    assert not sent(client.advertise("a", parse_filter("x > 0")))
    assert not sent(client.publish({"x": 1}))
    assert [type(m) for m in sent(client.handle("b", Advertised("a"), now=1.0))] == [Unadvertise, Advertise]
    assert [type(m) for m in sent(client.handle("b", Advertised("a"), now=2.0))] == [Publish]
