"""The client machine by itself: numbering, waiting for advertisements, and replies that it must not get."""

import pytest

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded, LinkDown, LinkUp, Observe, Observed, Send
from pleach.core.events.event import EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertise,
    Advertised,
    Attached,
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
    decode,
    wire_tag,
)
from pleach.core.routing.router import RoutingConfig
from pleach.errors import EventError, ProtocolError


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Send)]


def observed(effects):
    return [effect.kind for effect in effects if isinstance(effect, Observe)]


def test_events_are_counted_from_one():
    client = ClientMachine("c", "b", incarnation=3)
    ids = [sent(client.publish({"x": x}))[0].event.id for x in range(3)]
    assert ids == [EventId("c", 3, 1), EventId("c", 3, 2), EventId("c", 3, 3)]


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 2**64, float("nan"), float("inf"), "\ud800", 1j])
def test_a_bad_value_is_an_error_and_uses_up_no_number(value):
    client = ClientMachine("c", "b")
    with pytest.raises(EventError, match="'x'"):
        client.publish({"x": value})
    assert sent(client.publish({"x": 1}))[0].event.id.sequence == 1


def test_publishing_waits_for_the_advertisement_and_keeps_its_order():
    client = ClientMachine("c", "b")
    assert [type(m) for m in sent(client.advertise("a", parse_filter("x > 0")))] == [Advertise]
    first = client.publish({"x": 1})
    assert observed(first) == [Observed.PUBLISH]
    assert not sent(first)
    assert not sent(client.unadvertise("a"))
    released = sent(client.handle("b", Advertised("a"), now=1.0))
    assert [type(m) for m in released] == [Publish, Unadvertise]


def test_two_advertisements_must_both_be_in_effect():
    client = ClientMachine("c", "b")
    client.advertise("a1", parse_filter("x > 0"))
    client.advertise("a2", parse_filter("x < 0"))
    client.publish({"x": 1})
    assert not sent(client.handle("b", Advertised("a1"), now=1.0))
    assert len(sent(client.handle("b", Advertised("a2"), now=1.0))) == 1


def test_a_refused_advertisement_does_not_block_for_ever():
    client = ClientMachine("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    client.publish({"x": 1})
    effects = client.handle("b", Refused("a", "no"), now=1.0)
    assert observed(effects) == [Observed.STATE]
    assert len(sent(effects)) == 1


ONE, TWO = parse_filter("x = 1"), parse_filter("x = 2")


def wanted_again(client):
    """What a broker that has lost its memory is asked for."""
    return [m for m in sent(client.peer_reset("b")) if isinstance(m, Subscribe | Advertise)]


class TestRefusals:
    def test_what_was_refused_is_not_asked_for_again(self):
        client = ClientMachine("c", "b")
        client.subscribe("s", ONE, network_wide=False)
        client.handle("b", Refused("s", "no room", Layer.SUBSCRIPTIONS, ONE), now=0.0)
        client.advertise("a", ONE)
        client.handle("b", Refused("a", "no room", Layer.ADVERTISEMENTS, ONE), now=0.0)
        assert wanted_again(client) == []
        client.subscribe("s", TWO)
        assert client.handle("b", Subscribed("s"), now=0.0)[0].detail == "", "the early one was refused"

    @pytest.mark.parametrize("is_confirmed", [True, False])
    def test_a_name_that_stands_for_something_keeps_it(self, is_confirmed):
        """As at the broker, which refuses to use it for something else."""
        client = ClientMachine("c", "b")
        client.subscribe("s", ONE)
        client.advertise("a", ONE)
        if is_confirmed:
            client.handle("b", Subscribed("s"), now=0.0)
            client.handle("b", Advertised("a"), now=0.0)
        assert sent(client.subscribe("s", TWO)) == [Subscribe("s", TWO)]
        assert sent(client.advertise("a", TWO)) == [Advertise("a", TWO)]
        client.handle("b", Refused("s", "taken", Layer.SUBSCRIPTIONS, TWO), now=0.0)
        client.handle("b", Refused("a", "taken", Layer.ADVERTISEMENTS, TWO), now=0.0)
        assert wanted_again(client) == [Advertise("a", ONE), Subscribe("s", ONE)]

    def test_a_renewal_asks_again_for_what_was_refused_but_not_under_a_name_that_is_taken(self):
        """Where state is leased, damaged state may have refused it."""
        client = ClientMachine("c", "b")
        client.handle("b", Attached(5.0), now=0.0)
        client.subscribe("s", ONE)
        client.handle("b", Subscribed("s"), now=0.0)
        client.subscribe("s", TWO)
        client.handle("b", Refused("s", "taken", Layer.SUBSCRIPTIONS, TWO), now=0.0)
        client.subscribe("t", TWO)
        client.handle("b", Refused("t", "no room", Layer.SUBSCRIPTIONS, TWO), now=0.0)
        renewals = [m for m in sent(client.handle_timer("renew", now=0.0)) if isinstance(m, Subscribe)]
        again = [Subscribe("s", ONE, renews=True), Subscribe("t", TWO, renews=True)]
        assert renewals[:2] == again
        assert TWO not in [each.filter for each in renewals if each.subscription == "s"]

    def test_a_renewal_that_is_refused_is_made_again(self):
        """The broker has forgotten the subscription, and has no room for it just now."""
        client = ClientMachine("c", "b")
        client.handle("b", Attached(5.0), now=0.0)
        client.subscribe("s", ONE)
        client.handle("b", Subscribed("s"), now=0.0)
        client.handle("b", Refused("s", "no room", Layer.SUBSCRIPTIONS, ONE), now=0.0)
        assert Subscribe("s", ONE, renews=True) in sent(client.handle_timer("renew", now=0.0))

    def test_a_refused_subscription_puts_no_advertisement_of_its_name_into_effect(self):
        client = ClientMachine("c", "b")
        client.advertise("n", ONE)
        client.subscribe("n", TWO)
        client.publish({"x": 1})
        assert sent(client.handle("b", Refused("n", "no room", Layer.SUBSCRIPTIONS, TWO), now=0.0)) == []
        assert [type(m) for m in sent(client.handle("b", Advertised("n"), now=0.0))] == [Publish]

    def test_an_older_broker_does_not_say_the_layer(self):
        assert decode(bytes([0x93, wire_tag(Refused)]) + b"\xa1n\xa3why") == Refused("n", "why")

    def test_a_client_that_moves_by_itself_does_not_wait_for_what_was_refused(self):
        client = ClientMachine("c", "b")
        client.advertise("a", ONE)
        client.handle("b", Advertised("a"), now=0.0)
        client.resettle("op", "d", gently=False)
        client.publish({"x": 1})
        effects = client.handle("d", Refused("a", "no room", Layer.ADVERTISEMENTS, ONE), now=0.0)
        assert [type(m) for m in sent(effects)] == [Publish]
        assert Concluded("op") in effects


@pytest.mark.parametrize("advertisements", [False, True])
def test_client_and_broker_agree_on_what_names_stand_for(advertisements):
    """Whatever is asked for under a name, and refused: what the client asks for again is what the broker has."""
    broker, client = Broker("b", RoutingConfig(advertisements=advertisements)), ClientMachine("c", "b")
    acts = [client.attach()]
    for verb in (client.subscribe, client.advertise):
        acts += [verb("n", ONE), verb("n", TWO), verb("m", TWO), verb("m", TWO)]
    answers = [e.message for act in acts for m in sent(act) for e in broker.handle("c", m, now=0.0)]
    assert [(m.layer, m.filter) for m in answers if isinstance(m, Refused)] == [(layer, TWO) for layer in Layer]
    for message in answers:
        client.handle("b", message, now=0.0)
    before = broker.capture()
    for message in sent(client.peer_reset("b")):
        broker.handle("c", message, now=0.0)
    assert broker.capture() == before


def test_replies_become_observations():
    client = ClientMachine("c", "b")
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
    client = ClientMachine("c", "b")
    event = sent(client.publish({"x": 1}))[0].event
    assert client.handle("a", Deliver(event), now=0.0) == []
    if is_restarted:
        state, client = client.capture(), ClientMachine("c", "b")
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
        ClientMachine("c", "b").handle("b", message, now=0.0)


def test_what_is_captured_is_restored():
    client = ClientMachine("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    client.publish({"x": 1})
    again = ClientMachine("c", "b")
    again.restore(client.capture())
    assert again.capture() == client.capture()
    released = sent(again.handle("b", Advertised("a"), now=1.0))
    assert released[0].event.id == EventId("c", 0, 1)
    assert sent(again.publish({"x": 2}))[0].event.id == EventId("c", 0, 2)


def test_an_early_confirmation_is_marked_as_such():
    client = ClientMachine("c", "b")
    client.subscribe("s", parse_filter("x = 1"), network_wide=False)
    early = client.handle("b", Subscribed("s"), now=0.0)
    client.subscribe("t", parse_filter("x = 1"))
    full = client.handle("b", Subscribed("t"), now=0.0)
    assert [effect.detail for effect in (*early, *full)] == ["local", ""]


def test_an_advertisement_does_not_overtake_its_own_withdrawal():
    """Advertised, taken back and advertised again in one breath: the last word is what counts."""
    client = ClientMachine("c", "b")
    client.advertise("a", parse_filter("x > 0"))
    assert not sent(client.unadvertise("a"))
    assert not sent(client.advertise("a", parse_filter("x > 0")))
    assert not sent(client.publish({"x": 1}))
    assert [type(m) for m in sent(client.handle("b", Advertised("a"), now=1.0))] == [Unadvertise, Advertise]
    assert [type(m) for m in sent(client.handle("b", Advertised("a"), now=2.0))] == [Publish]
