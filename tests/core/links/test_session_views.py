"""Views of a peer that has standbys (session.py, rule 8)."""

from pleach.core.links.endpoint import Endpoint, Progress
from pleach.core.links.frames import Bye, ByeReason, Hello
from pleach.core.links.session import Hangup, Session, SessionPhase, SessionState, Transmit, Up

OURS, THEIRS = 10, 20


def session(**known) -> Session:
    made = Session("a", "b", SessionState(OURS, THEIRS, **known))
    made.connected(now=0.0)
    return made


def hello(view: int, **more) -> Hello:
    return Hello("b", THEIRS, OURS, 0, 1, view=view, **more)


def test_a_newer_view_goes_on_where_the_older_one_was():
    a = session(received=7, outbox=[b"x"], peer_view=2)
    effects = a.receive(hello(5), now=0.0)
    assert (a.phase, a.peer_view, a.received) == (SessionPhase.UP, 5, 7)
    assert isinstance(effects[0], Up)
    assert len(effects) == 2  # what was not confirmed is sent again


def test_an_older_view_is_fenced_and_told_which_is_known():
    a = session(peer_view=5)
    bye, hangup = a.receive(hello(4), now=0.0)
    assert isinstance(bye, Transmit)
    assert isinstance(bye.frame, Bye)
    assert (bye.frame.why, bye.frame.view, bye.frame.is_at_work) == (ByeReason.FENCED, 5, False)
    assert isinstance(hangup, Hangup)
    assert a.phase is SessionPhase.GREETING


def test_views_of_a_new_epoch_begin_anew():
    a = session(peer_view=5)
    a.receive(Hello("b", THEIRS + 1, 0, 0, 1, view=1), now=0.0)
    assert (a.phase, a.peer_epoch, a.peer_view) == (SessionPhase.UP, THEIRS + 1, 1)


def test_the_same_view_is_welcome_again():
    a = session(peer_view=5)
    a.receive(hello(5), now=0.0)
    assert a.phase is SessionPhase.UP


def test_views_are_kept_with_the_session():
    a = session(peer_view=3)
    a.receive(hello(4), now=0.0)
    assert a.capture().peer_view == 4
    assert Progress.of(a).peer_view == 4


class Machine:
    name = "a"


def test_a_view_that_was_met_is_in_the_batch_before_anything_is_sent():
    endpoint = Endpoint(Machine(), OURS)
    endpoint.connected("b", now=0.0)
    endpoint.take_batch()
    endpoint.receive("b", Hello("b", THEIRS, 0, 0, 1, view=6), now=0.0)
    batch = endpoint.take_batch()
    assert batch.progress["b"].peer_view == 6
    assert batch.changes_disk


def test_a_broker_with_standbys_says_its_view():
    a = session()
    a.introduction.view = 9
    (greeting,) = a.connected(now=0.0)
    assert greeting.frame.view == 9
