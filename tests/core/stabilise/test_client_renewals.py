"""A client that learns from its broker how often to renew, and what it says then."""

from pleach.core.client.machine import ClientMachine
from pleach.core.client.state import RENEW, ROUNDS_UNANSWERED_MAX
from pleach.core.effects import Observed, Send, SetTimer
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertise,
    Advertised,
    Attach,
    Attached,
    Publish,
    Renewed,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
)

X, Y = parse_filter("x > 0"), parse_filter("y > 0")


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Send)]


def timers(effects):
    return [effect for effect in effects if isinstance(effect, SetTimer)]


def attached(refresh=2.0):
    client = ClientMachine("c", "b")
    client.attach()
    client.subscribe("s", X)
    effects = client.handle("b", Attached(refresh), now=0.0)
    return client, effects


def renewals(client):
    return sent(client.handle_timer(RENEW, now=0.0))


def test_without_leases_nothing_is_renewed():
    client, effects = attached(refresh=0.0)
    assert effects == []
    assert client.resume(now=0.0) == []
    assert client.reconnected() == []


def test_the_broker_says_how_often():
    client, (timer,) = attached()
    assert timer.name == RENEW
    assert 0.0 < timer.after <= 2.0
    assert timers(client.handle_timer(RENEW, now=0.0)) == [SetTimer(RENEW, 2.0, is_upkeep=True)]


def test_it_is_told_again_with_every_renewal_and_that_changes_nothing():
    client, _ = attached()
    assert client.handle("b", Attached(2.0), now=0.0) == []


def test_another_refresh_is_taken_over():
    client, _ = attached()
    (timer,) = client.handle("b", Attached(0.5), now=0.0)
    assert timer.after <= 0.5
    assert timers(client.handle_timer(RENEW, now=0.0)) == [SetTimer(RENEW, 0.5, is_upkeep=True)]


def test_what_is_not_confirmed_is_asked_for_again():
    client, _ = attached()
    assert renewals(client) == [Attach(), Subscribe("s", X, renews=True), Renewed(), Subscribe("s", X)]
    client.handle("b", Subscribed("s"), now=0.0)
    assert renewals(client) == [Attach(), Subscribe("s", X, renews=True), Renewed()]


def test_advertisements_are_renewed_and_asked_for_again_until_they_are_confirmed():
    client, _ = attached()
    client.advertise("a", Y)
    assert renewals(client)[1:3] == [Advertise("a", Y, renews=True), Advertise("a", Y)]
    client.handle("b", Advertised("a"), now=0.0)
    assert renewals(client)[1:3] == [Advertise("a", Y, renews=True), Subscribe("s", X, renews=True)]


def test_an_advertisement_stays_until_its_withdrawal_is_sent():
    """Events that wait before the withdrawal need it."""
    client, _ = attached()
    client.advertise("a", Y)
    client.handle("b", Advertised("a"), now=0.0)
    client.advertise("later", X)
    client.publish({"y": 1})
    client.unadvertise("a")
    assert Advertise("a", Y, renews=True) in renewals(client)
    released = sent(client.handle("b", Advertised("later"), now=0.0))
    assert [type(message) for message in released] == [Publish, Unadvertise]
    assert Advertise("a", Y, renews=True) not in renewals(client)


def test_a_second_confirmation_is_not_that_of_a_later_advertisement():
    client, _ = attached()
    client.advertise("a", Y)
    renewals(client)
    client.handle("b", Advertised("a"), now=0.0)
    client.unadvertise("a")
    client.advertise("a", X)
    client.publish({"x": 1})
    assert client.handle("b", Advertised("a"), now=0.0) == [], "the answer to asking again, from before"
    client.handle("b", Unadvertised("a"), now=0.0)
    assert [type(m) for m in sent(client.handle("b", Advertised("a"), now=0.0))] == [Publish]


def test_an_answer_that_never_comes_does_not_hide_those_to_later_requests_of_the_name():
    """The broker lost its memory, and with it what it would have answered."""
    client, _ = attached()
    client.unsubscribe("s")
    client.advertise("a", X)
    client.handle("b", Advertised("a"), now=0.0)
    client.unadvertise("a")
    for _ in range(ROUNDS_UNANSWERED_MAX):
        renewals(client)
    client.subscribe("s", Y)
    client.advertise("a", Y)
    client.publish({"y": 1})
    assert [e.kind for e in client.handle("b", Subscribed("s"), now=0.0)] == [Observed.SUBSCRIBE_ACK]
    (publish,) = sent(client.handle("b", Advertised("a"), now=0.0))
    assert isinstance(publish, Publish)


def test_what_cannot_be_heard_is_put_off_and_made_up_for():
    client, _ = attached()
    assert sent(client.put_off()) == []
    assert len(timers(client.put_off())) == 1
    assert Subscribe("s", X, renews=True) in sent(client.reconnected())


def test_a_client_that_starts_again_goes_on_renewing():
    client, _ = attached()
    again = ClientMachine("c", "b")
    again.restore(client.capture())
    assert len(timers(again.resume(now=0.0))) == 1
    assert Subscribe("s", X, renews=True) in renewals(again)
