"""A peer that cannot be waited for is given up: what is kept for it goes, and it cannot resume in silence."""

from pleach.core.broker import Broker
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Hello
from pleach.core.links.session import Session, SessionConfig, SessionPhase, SessionState
from pleach.core.messages import Attach, Subscribe, encode
from pleach.core.routing.router import RoutingConfig


def session_up(received=0):
    session = Session("b", "s", SessionState(1))
    session.connected(now=0.0)
    session.receive(Hello("s", 5, 1 if received else 0, received, 1), now=0.0)
    assert session.phase is SessionPhase.UP
    return session


def test_the_outbox_knows_its_bytes():
    session = session_up()
    session.send(b"xxx", now=0.0)
    session.send(b"yy", now=0.0)
    assert session.outbox_bytes == 5
    session.receive(Ack(1), now=0.0)
    assert session.outbox_bytes == 2
    assert Session("b", "s", session.capture()).outbox_bytes == 2


def test_given_up_it_is_told_and_keeps_nothing():
    session = session_up()
    session.send(b"xxx", now=0.0)
    told, hangup = session.give_up("too slow")
    assert told.frame == Bye(ByeReason.BROKEN, "too slow")
    assert hangup.reason == "too slow"
    assert session.outbox_bytes == session.unconfirmed == 0
    assert session.receive(Data(1, b"late"), now=0.0) == []


def test_not_even_a_peer_that_has_received_all_can_resume():
    for received in (0, 1):
        session = session_up()
        session.send(b"xxx", now=0.0)
        session.give_up("too slow")
        session.connected(now=1.0)
        told, _ = session.receive(Hello("s", 5, 1, received, 1), now=1.0)
        assert told.frame.why is ByeReason.BROKEN


def test_a_new_life_of_the_peer_starts_over():
    session = session_up()
    session.send(b"xxx", now=0.0)
    session.give_up("too slow")
    session.connected(now=1.0)
    session.receive(Hello("s", 6, 0, 0, 1), now=1.0)
    assert session.phase is SessionPhase.UP
    sent = session.send(b"new", now=1.0)
    assert [effect.frame for effect in sent] == [Data(3, b"new")]


def test_to_the_machine_it_is_as_if_the_client_had_gone_and_a_journal_says_so():
    endpoint = Endpoint(Broker("b", RoutingConfig()), 1, SessionConfig())
    endpoint.connected("s", now=0.0)
    endpoint.receive("s", Hello("s", 5, 0, 0, 1), now=0.0)
    for sequence, message in enumerate([Attach(), Subscribe("all", parse_filter("n > 0"))], 1):
        endpoint.receive("s", Data(sequence, encode(message)), now=0.0)
    endpoint.take_batch()
    endpoint.expel("s", "too slow", now=0.0)
    batch = endpoint.take_batch()
    assert endpoint.machine.sessions.clients == []
    assert [(entry.peer, entry.payload) for entry in batch.journal] == [("s", None)]
    assert batch.progress["s"].first == endpoint.sessions["s"].first == 4
    assert batch.hangups == [("s", "too slow")]
