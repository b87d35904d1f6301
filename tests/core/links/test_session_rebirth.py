"""A node that lost its memory meets a peer that still has something for its former life (session.py, rules 5 to 7)."""

from collections import deque

import pytest

from pleach.core.links.session import Arrived, Hangup, PeerReset, Session, SessionPhase, SessionState, Transmit


class Line:
    """A connection between two sessions; `after` frames it is cut. A session that sees a rebirth sends `again`."""

    def __init__(self, left, right):
        self.ends = (left, right)
        self.arrived = {left.node: [], right.node: []}
        self.hangups = []

    def run(self, after=10_000):
        left, right = self.ends
        lines = {left.node: deque(), right.node: deque()}  # by receiver
        for session, other in ((left, right), (right, left)):
            session.disconnected()
            self.take(session, other, session.connected(now=0.0), lines)
        for _ in range(after):
            session, other = (right, left) if lines[right.node] else (left, right)
            if not lines[session.node]:
                break
            frame = lines[session.node].popleft()
            if not self.take(session, other, session.receive(frame, now=0.0), lines):
                break
        left.disconnected()
        right.disconnected()

    def take(self, session, other, effects, lines):
        for effect in effects:
            match effect:
                case Transmit(frame):
                    lines[other.node].append(frame)
                case Arrived(payload):
                    self.arrived[session.node].append(payload)
                case PeerReset():
                    self.take(session, other, session.send(b"again", now=0.0), lines)
                case Hangup(reason):
                    self.hangups.append(reason)
                    return False
        return True


def acquainted():
    client, broker = Session("c", "b", SessionState(5)), Session("b", "c", SessionState(1))
    client.send(b"old", now=0.0)
    line = Line(client, broker)
    line.run()
    assert line.arrived["b"] == [b"old"]
    return client


@pytest.mark.parametrize("left_over", [0, 1, 3])
def test_what_was_meant_for_the_former_life_is_void_and_the_session_goes_on(left_over):
    client = acquainted()
    for number in range(left_over):
        client.send(b"void%d" % number, now=0.0)
    line = Line(client, Session("b", "c", SessionState(2)))
    line.run()
    client.send(b"new", now=0.0)
    line.run()
    assert line.hangups == []
    assert line.arrived["b"] == [b"again", b"new"]
    assert client.unconfirmed == 0


@pytest.mark.parametrize("cut_after", range(8))
def test_a_cut_at_any_frame_of_the_second_greeting_changes_nothing(cut_after):
    client = acquainted()
    client.send(b"void", now=0.0)
    line = Line(client, Session("b", "c", SessionState(2)))
    line.run(after=cut_after)
    line.run()
    assert line.hangups == []
    assert line.arrived["b"] == [b"again"]


def test_a_reborn_side_learns_where_its_peer_goes_on():
    """The same with the roles changed: the one that dials is the one that was reborn."""
    broker = acquainted()
    broker.send(b"void", now=0.0)
    line = Line(Session("b", "c", SessionState(2)), broker)
    line.run()
    line.run()
    assert (line.hangups, line.arrived["b"]) == ([], [b"again"])
    assert broker.phase is SessionPhase.DOWN


# Rule 7: who was sent to a peer knows to which life of it ----------------------------------------------------------


def sent_to(life):
    client = Session("c", "b", SessionState(5))
    client.introduction.awaited = life
    client.send(b"said on the way", now=0.0)
    return client


@pytest.mark.parametrize("floor", [1, 7])
def test_the_life_that_it_was_sent_to_is_met_as_any_other(floor):
    """Whatever number it counts from, and whatever it has had for the one to come."""
    broker = Session("b", "c", SessionState(2, first=floor))
    broker.send(b"what came for it", now=0.0)
    line = Line(sent_to(2), broker)
    line.run()
    assert line.hangups == []
    assert line.arrived == {"c": [b"what came for it"], "b": [b"said on the way"]}


@pytest.mark.parametrize("cut_after", range(8))
def test_a_later_life_is_one_that_has_lost_its_memory(cut_after):
    client = sent_to(2)
    line = Line(client, Session("b", "c", SessionState(3)))
    line.run(after=cut_after)
    line.run()
    assert (line.hangups, line.arrived["b"]) == ([], [b"again"])
    assert client.known_epoch == 3


def test_an_earlier_life_is_a_ghost():
    line = Line(sent_to(2), Session("b", "c", SessionState(1)))
    line.run()
    assert line.hangups == ["a newer b is known to c"]
    assert line.arrived["b"] == []


def test_once_it_has_met_one_that_is_what_counts():
    client = acquainted()
    client.introduction.awaited = 9
    assert client.known_epoch == 1
    (greeting,) = client.connected(now=0.0)
    assert (greeting.frame.peer_epoch, greeting.frame.awaits) == (1, 0)
