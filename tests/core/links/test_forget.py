"""A forgotten peer leaves nothing behind, and cannot go on as if nothing had happened."""

import pytest

from pleach.core.broker import Broker
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint, Saved
from pleach.core.links.frames import Bye, ByeReason, Data, Hello
from pleach.core.links.session import SessionState
from pleach.core.messages import Attach, Publish, Subscribe, encode
from pleach.core.routing.router import RoutingConfig

EPOCH, CLIENT_EPOCH = 5, 3


def broker_that_knew(client="c"):
    """A broker with one client that has subscribed, has got an event, and is gone."""
    endpoint = Endpoint(Broker("b", RoutingConfig()), EPOCH)
    endpoint.connected(client, now=0.0)
    endpoint.receive(client, Hello(client, CLIENT_EPOCH, 0, 0, 1), now=0.0)
    own = Publish(Event(EventId(client, 1, 1), {"n": 1}))
    for sequence, message in enumerate([Attach(), Subscribe("s", parse_filter("n > 0")), own], 1):
        endpoint.receive(client, Data(sequence, encode(message)), now=0.0)
    endpoint.disconnected(client)
    endpoint.take_batch()
    return endpoint


def come_back(endpoint, received, *, epoch=CLIENT_EPOCH, peer_epoch=EPOCH):
    """What the broker says to a client that wants to go on."""
    endpoint.connected("c", now=1.0)
    endpoint.receive("c", Hello("c", epoch, peer_epoch, received, 4), now=1.0)
    return [frame for _, frame in endpoint.take_batch().transmits]


def forget(endpoint):
    endpoint.expel("c", "away for too long", now=1.0)
    endpoint.forget(["c"])
    return endpoint.take_batch()


def test_nothing_is_left_and_the_batch_says_so():
    endpoint = broker_that_knew()
    batch = forget(endpoint)
    assert endpoint.sessions == endpoint._noted == {}
    assert endpoint.machine.sessions.clients == []
    assert batch.forgotten == ["c"]
    assert [(entry.peer, entry.payload) for entry in batch.journal] == [("c", None)]
    assert not batch.progress
    assert not batch.queued


@pytest.mark.parametrize("received", range(5))
def test_however_much_it_had_it_cannot_resume_and_is_told(received):
    endpoint = broker_that_knew()
    assert endpoint.sessions["c"].last == 4  # Attached, Subscribed, the event, Published
    forget(endpoint)
    bye = come_back(endpoint, received)[-1]
    assert isinstance(bye, Bye)
    assert bye.why is ByeReason.BROKEN


@pytest.mark.parametrize("received", range(5))
def test_nor_can_it_after_a_restart_of_the_broker(received):
    endpoint = broker_that_knew()
    forget(endpoint)
    again = Endpoint(Broker("b", RoutingConfig()), EPOCH)
    again.recover(Saved(endpoint.capture(), [], {}, endpoint._sequence_floor))
    assert isinstance(come_back(again, received)[-1], Bye)


def test_a_new_life_of_it_starts_over():
    endpoint = broker_that_knew()
    forget(endpoint)
    (hello,) = come_back(endpoint, 0, epoch=CLIENT_EPOCH + 1, peer_epoch=0)
    assert isinstance(hello, Hello)
    endpoint.receive("c", Data(4, encode(Attach())), now=1.0)
    sent = [frame for _, frame in endpoint.take_batch().transmits if isinstance(frame, Data)]
    assert [frame.sequence for frame in sent] == [hello.first]


def test_who_is_connected_is_not_forgotten():
    endpoint = broker_that_knew()
    endpoint.connected("c", now=1.0)
    with pytest.raises(AssertionError, match="connected"):
        endpoint.forget(["c"])


def test_without_anybody_forgotten_sessions_count_from_one():
    endpoint = Endpoint(Broker("b", RoutingConfig()), EPOCH)
    assert endpoint.admit("x").capture() == SessionState(EPOCH)
