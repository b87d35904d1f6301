"""One session: every phase × every frame has a stated outcome; rules 1 to 6 of session.py, one by one."""

from __future__ import annotations

import itertools

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.links.frames import PROTOCOL_VERSION, Ack, Bye, ByeReason, Data, Frame, Hello, Ping
from pleach.core.links.session import (
    Arrived,
    Fenced,
    Hangup,
    PeerReset,
    Session,
    SessionConfig,
    SessionPhase,
    SessionState,
    Transmit,
    Up,
)
from pleach.core.messages import Publish
from pleach.core.messages.runs import encode_event, encode_run

CONFIG = SessionConfig(heartbeat=1.0, window=3)
OURS, THEIRS = 5, 7  # epochs


def hello(epoch: int = THEIRS, peer_epoch: int = OURS, received: int = 0, first: int = 1, **more) -> Hello:
    return Hello("b", epoch, peer_epoch, received, first, **more)


def session_in(phase: SessionPhase, *, sent: int = 2, received: int = 4) -> Session:
    """A session of `a` with `b`, which it knows, with `sent` payloads on their way and `received` ones here."""
    outbox = [b"out %d" % n for n in range(1, sent + 1)]
    session = Session("a", "b", SessionState(OURS, THEIRS, received, outbox=outbox), CONFIG)
    if phase is not SessionPhase.DOWN:
        session.connected(now=0.0)
    if phase is SessionPhase.UP:
        session.receive(hello(), now=0.0)
    if phase is SessionPhase.FENCED:
        session.receive(Bye(ByeReason.FENCED, "x"), now=0.0)
    assert session.phase is phase
    return session


# Phases × frames -------------------------------------------------------------------------------------------------

FRAMES: dict[str, Frame] = {
    "hello": hello(),
    "hello after a crash of the link": hello(received=1),
    "hello of a stranger": Hello("z", THEIRS, OURS, 0, 1),
    "hello of another version": hello(version=PROTOCOL_VERSION + 1),
    "hello of a ghost": hello(epoch=THEIRS - 1),
    "hello of a new life": hello(epoch=THEIRS + 1, peer_epoch=0),
    "hello to our former life": hello(peer_epoch=OURS - 1),
    "hello to our next life": hello(peer_epoch=OURS + 1),
    "hello with too much": hello(received=3),
    "data in order": Data(5, b"in"),
    "data again": Data(4, b"in"),
    "data with a gap": Data(6, b"in"),
    "ack": Ack(1),
    "ack of nothing": Ack(0),
    "ack of what was never sent": Ack(3),
    "ping": Ping(),
    **{f"bye {why.name}": Bye(why, "x") for why in ByeReason},
}
IGNORED: list[str] = []
GREETING = {
    "hello": ["Up", "Data", "Data"],
    "hello after a crash of the link": ["Up", "Data"],
    "hello of a stranger": ["Bye", "Hangup"],
    "hello of another version": ["Bye", "Hangup"],
    "hello of a ghost": ["Bye", "Hangup"],
    "hello of a new life": ["Hello", "PeerReset", "Up"],
    "hello to our former life": IGNORED,
    "hello to our next life": IGNORED,
    "hello with too much": ["Outdated", "Hangup"],
    "bye FENCED": ["Fenced", "Hangup"],
}
UP = {
    "data in order": ["Arrived", "Ack"],
    "data again": ["Ack"],
    "ack": IGNORED,
    "ack of nothing": IGNORED,
    "ping": IGNORED,
    "bye FENCED": ["Fenced", "Hangup"],
}
OUTCOMES = {SessionPhase.DOWN: {}, SessionPhase.FENCED: {}, SessionPhase.GREETING: GREETING, SessionPhase.UP: UP}


def names(effects) -> list[str]:
    """The effects by name; a Transmit by the name of its frame."""
    return [type(e.frame if isinstance(e, Transmit) else e).__name__ for e in effects]


@pytest.mark.parametrize(("phase", "frame"), [*itertools.product(SessionPhase, FRAMES)])
def test_every_frame_in_every_phase_has_its_outcome(phase, frame):
    """What is listed; otherwise nothing where there is no connection, and the end of the connection where there is."""
    session = session_in(phase)
    otherwise = ["Hangup"] if phase in (SessionPhase.GREETING, SessionPhase.UP) else IGNORED
    before = session.capture()
    effects = session.receive(FRAMES[frame], now=1.0)
    assert names(effects) == OUTCOMES[phase].get(frame, otherwise)
    if names(effects)[-1:] == ["Hangup"]:
        assert session.capture() == before, "a refused frame changes nothing"


@pytest.mark.parametrize("phase", SessionPhase)
def test_every_call_in_every_phase_has_its_outcome(phase):
    is_up, is_connected = phase is SessionPhase.UP, phase in (SessionPhase.GREETING, SessionPhase.UP)
    is_fenced = phase is SessionPhase.FENCED
    assert names(session_in(phase).send(b"x", now=0.0)) == (["Data"] if is_up else [])
    assert names(session_in(phase).connected(now=0.0)) == (["Hangup"] if is_fenced else ["Hello"])
    assert names(session_in(phase).leave("bye")) == (["Bye", "Hangup"] if is_connected else [])
    assert names(session_in(phase).tick(now=1.0)) == (["Ping"] if is_up else [])
    assert names(session_in(phase).tick(now=3.01)) == (["Hangup"] if is_connected else [])
    session = session_in(phase)
    session.disconnected()
    assert session.phase is (SessionPhase.FENCED if is_fenced else SessionPhase.DOWN)


# Rules 1 and 2: numbers, and where to go on ----------------------------------------------------------------------


def test_what_is_sent_while_down_goes_out_in_order_after_the_greeting():
    session = session_in(SessionPhase.GREETING, sent=2)
    effects = session.receive(hello(), now=0.0)
    assert effects == [Up(), Transmit(Data(1, b"out 1")), Transmit(Data(2, b"out 2"))]


@pytest.mark.parametrize("received", range(4))
def test_a_new_connection_goes_on_after_what_the_peer_has(received):
    session = session_in(SessionPhase.UP, sent=3)
    session.disconnected()
    session.connected(now=1.0)
    effects = session.receive(hello(received=received), now=1.0)
    assert effects == [Up(), *(Transmit(Data(n, b"out %d" % n)) for n in range(received + 1, 4))]
    assert session.unconfirmed == 3 - received


def test_no_more_than_the_window_is_under_way():
    session = session_in(SessionPhase.UP, sent=0)
    sent = [names(session.send(b"x", now=0.0)) for _ in range(5)]
    assert sent == [["Data"]] * 3 + [[]] * 2
    assert session.receive(Ack(2), now=0.0) == [Transmit(Data(4, b"x")), Transmit(Data(5, b"x"))]
    assert session.unconfirmed == 3


def test_an_ack_is_cumulative_and_an_old_one_does_nothing():
    session = session_in(SessionPhase.UP, sent=3)
    session.receive(Ack(3), now=0.0)
    assert session.unconfirmed == 0
    assert not session.receive(Ack(1), now=0.0)
    assert (session.first, session.last) == (4, 3)


def run(count: int) -> bytes:
    events = [encode_event(Event(EventId("p", 0, n + 1), {})) for n in range(count)]
    return encode_run(Publish, count, b"".join(events))


def sent(effects) -> list[int]:
    return [effect.frame.sequence for effect in effects if isinstance(effect, Transmit)]


def test_a_window_counts_messages_and_a_run_is_several():
    session = session_in(SessionPhase.UP, sent=0)
    assert sent(session.send(run(2), now=0.0)) == [1]
    assert sent(session.send(run(2), now=0.0)) == []  # four would be under way
    assert sent(session.send(b"single", now=0.0)) == []  # and nothing overtakes
    assert session.unconfirmed == 5
    assert sent(session.receive(Ack(1), now=0.0)) == [2, 3]
    assert session.unconfirmed == 3


def test_a_run_larger_than_the_window_goes_alone():
    session = session_in(SessionPhase.UP, sent=0)
    assert sent(session.send(run(5), now=0.0)) == [1]
    assert sent(session.send(b"single", now=0.0)) == []
    assert sent(session.receive(Ack(1), now=0.0)) == [2]


def test_what_was_under_way_on_a_former_connection_takes_no_room_on_the_next():
    session = session_in(SessionPhase.UP, sent=0)
    session.send(run(3), now=0.0)
    session.send(run(3), now=0.0)
    session.disconnected()
    session.connected(now=1.0)
    assert sent(session.receive(hello(received=1), now=1.0)) == [2]
    assert sent(session.receive(Ack(2), now=1.0)) == []
    assert session.unconfirmed == 0
    assert sent(session.send(run(3), now=1.0)) == [3]


def test_a_restored_session_knows_how_many_messages_wait():
    session = session_in(SessionPhase.UP, sent=0)
    session.send(run(3), now=0.0)
    session.send(b"single", now=0.0)
    assert Session("a", "b", session.capture(), CONFIG).unconfirmed == 4


def test_a_peer_that_confirms_what_waits_outside_the_window_is_hung_up_on():
    """It is in the outbox, but it was never sent on this connection."""
    session = session_in(SessionPhase.UP, sent=5)
    assert names(session.receive(Ack(4), now=0.0)) == ["Hangup"]
    assert session.unconfirmed == 5


@pytest.mark.parametrize(("received", "is_met"), [(0, False), (1, False), (6, True), (2**63 - 1, True)])
def test_a_peer_that_claims_to_have_what_was_never_sent_or_lacks_what_is_gone_is_told_that_it_is_broken(
    received, is_met
):
    session = Session("a", "b", SessionState(OURS, THEIRS, 0, 3, [b"x"] * 3), CONFIG)
    session.connected(now=0.0)
    if is_met:
        session.receive(hello(received=2), now=0.0)
        session.disconnected()
        session.connected(now=0.0)
    bye, hangup = session.receive(hello(received=received), now=0.0)
    assert isinstance(bye, Transmit)
    assert isinstance(bye.frame, Bye)
    assert bye.frame.why is ByeReason.BROKEN
    assert isinstance(hangup, Hangup)
    assert session.unconfirmed == 3


# Rule 3: duplicates and gaps -------------------------------------------------------------------------------------


def test_a_duplicate_is_confirmed_again_and_not_handed_over():
    session = session_in(SessionPhase.UP, received=4)
    assert session.receive(Data(5, b"in"), now=0.0) == [Arrived(b"in"), Transmit(Ack(5))]
    assert session.receive(Data(5, b"in"), now=0.0) == [Transmit(Ack(5))]
    assert session.receive(Data(1, b"old"), now=0.0) == [Transmit(Ack(5))]
    assert session.received == 5


def test_after_a_gap_nothing_is_taken_until_the_missing_frame_comes():
    session = session_in(SessionPhase.UP, received=4)
    for number in (6, 7, 8):
        assert names(session.receive(Data(number, b"in"), now=0.0)) == ["Hangup"]
    assert session.received == 4


# Heartbeats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [SessionPhase.GREETING, SessionPhase.UP])
@pytest.mark.parametrize("tick", [0.1, 0.25, 0.5, 1.0])
def test_a_half_open_connection_is_found_within_three_heartbeats_and_a_tick(phase, tick):
    session, now, effects = session_in(phase), 0.0, []
    while "Hangup" not in names(effects):
        now += tick
        effects = session.tick(now=now)
        assert now <= 3 * CONFIG.heartbeat + tick + 1e-9, "not found in time"
    assert now > 3 * CONFIG.heartbeat, "found too early"


def test_two_idle_sessions_keep_each_other_alive():
    one = session_in(SessionPhase.UP)
    other = Session("b", "a", SessionState(THEIRS, OURS), CONFIG)
    other.connected(now=0.0)
    other.receive(Hello("a", OURS, THEIRS, 0, 1), now=0.0)
    pings = 0
    for step in range(1, 101):
        now = step * 0.3
        for source, sink in ((one, other), (other, one)):
            for effect in source.tick(now=now):
                assert effect == Transmit(Ping())
                assert not sink.receive(effect.frame, now=now)
                pings += 1
    assert pings >= 2 * 20


def test_whoever_talks_need_not_ping():
    session = session_in(SessionPhase.UP, sent=0)
    session.send(b"x", now=0.75)
    assert not session.tick(now=1.5)
    assert names(session.tick(now=1.75)) == ["Ping"]


# Rules 5 and 6: lives --------------------------------------------------------------------------------------------


def test_a_ghost_is_told_and_knows_for_good():
    knower = session_in(SessionPhase.GREETING)
    bye, _ = knower.receive(hello(epoch=THEIRS - 1), now=0.0)
    assert isinstance(bye, Transmit)
    assert isinstance(bye.frame, Bye)
    ghost = Session("b", "a", SessionState(THEIRS - 1), CONFIG)
    ghost.connected(now=0.0)
    effects = ghost.receive(bye.frame, now=0.0)
    assert effects == [Fenced(bye.frame.reason), Hangup(bye.frame.reason)]
    assert str(THEIRS) not in bye.frame.reason, "who knows the epoch of a client may read what waits for it"
    ghost.disconnected()
    assert names(ghost.connected(now=1.0)) == ["Hangup"]


def test_a_ghost_that_was_up_is_fenced_too():
    assert names(session_in(SessionPhase.UP).receive(Bye(ByeReason.FENCED, "x"), now=0.0)) == ["Fenced", "Hangup"]


def test_a_rebirth_is_reported_once_and_voids_what_was_for_the_former_life():
    session = session_in(SessionPhase.GREETING, sent=2)
    born = hello(epoch=THEIRS + 1, peer_epoch=0)
    second = Hello("a", OURS, THEIRS + 1, 0, 3)
    assert session.receive(born, now=0.0) == [Transmit(second), PeerReset(), Up()]
    assert session.unconfirmed == 0
    session.disconnected()
    session.connected(now=1.0)
    assert names(session.receive(born, now=1.0)) == ["Up"]


def test_a_new_life_that_claims_the_impossible_is_a_new_life_all_the_same():
    """What was for the former one is void, and the machine must hear of it, whatever else is wrong."""
    session = session_in(SessionPhase.GREETING, sent=2)
    effects = session.receive(hello(epoch=THEIRS + 1, received=99), now=0.0)
    assert names(effects) == ["Hello", "PeerReset", "Bye", "Hangup"]
    assert session.unconfirmed == 0


def test_the_first_meeting_is_no_rebirth_and_keeps_what_waits():
    session = Session("a", "b", SessionState(OURS), CONFIG)
    session.send(b"early", now=0.0)
    session.connected(now=0.0)
    assert session.receive(hello(peer_epoch=0, first=1), now=0.0) == [Up(), Transmit(Data(1, b"early"))]


def test_one_reborn_waits_for_the_greeting_that_knows_it():
    """What the peer had for our former life is on its way out; where it starts now, it says in its second Hello."""
    session = Session("a", "b", SessionState(OURS), CONFIG)
    session.connected(now=0.0)
    assert not session.receive(hello(peer_epoch=OURS - 1, first=5), now=0.0)
    assert names(session.receive(hello(first=10), now=0.0)) == ["Up"]
    assert names(session.receive(Data(10, b"x"), now=0.0)) == ["Arrived", "Ack"]


# Giving up -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [SessionPhase.DOWN, SessionPhase.GREETING, SessionPhase.UP])
@pytest.mark.parametrize("received", range(4))
def test_a_peer_that_was_given_up_cannot_resume_in_silence(phase, received):
    session = session_in(phase, sent=3)
    effects = session.give_up("too slow")
    assert names(effects) == ([] if phase is SessionPhase.DOWN else ["Bye", "Hangup"])
    session.disconnected()
    session.connected(now=1.0)
    assert names(session.receive(hello(received=received), now=1.0)) == ["Bye", "Hangup"]
    assert session.outbox_bytes == 0


def test_a_peer_that_was_given_up_can_begin_a_new_life():
    session = session_in(SessionPhase.UP, sent=3)
    session.give_up("too slow")
    session.connected(now=1.0)
    assert names(session.receive(hello(epoch=THEIRS + 1, peer_epoch=0), now=1.0)) == ["Hello", "PeerReset", "Up"]
    assert session.send(b"new", now=1.0) == [Transmit(Data(session.last, b"new"))]


# State -----------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_from_its_captured_state():
    session = session_in(SessionPhase.UP, sent=3)
    session.receive(Ack(1), now=0.0)
    session.receive(Data(5, b"in"), now=0.0)
    again = Session("a", "b", session.capture(), CONFIG)
    assert again.capture() == session.capture()
    assert (again.first, again.last, again.received, again.peer_epoch) == (2, 3, 5, THEIRS)
    assert again.connected(now=0.0) == [Transmit(Hello("a", OURS, THEIRS, 5, 2))]


def test_the_bytes_in_the_outbox_are_counted():
    session = session_in(SessionPhase.UP, sent=3)
    assert session.outbox_bytes == 3 * len(b"out 1")
    session.receive(Ack(2), now=0.0)
    assert session.outbox_bytes == len(b"out 1")
    assert Session("a", "b", session.capture(), CONFIG).outbox_bytes == len(b"out 1")
