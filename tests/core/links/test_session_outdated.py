"""Rule 9 of sessions: a broker that was put back from an old copy learns it from a neighbour, and nobody else does."""

import pytest

from pleach.core.links.frames import BROKER, CLIENT, Hello
from pleach.core.links.session import Hangup, Outdated, Session, SessionPhase, SessionState, Up

OURS, THEIRS = 5, 7  # epochs


def meet(state, received=0, first=1, *, epoch=THEIRS, peer_epoch=OURS, before=0, roles=(BROKER, BROKER)):
    """What b's Hello leads to at a. `before`: payloads that a has queued since it began."""
    session = Session("a", "b", state)
    session.introduction.role, role = roles
    for _ in range(before):
        session.queue(b"new")
    session.connected(now=0.0)
    return session, session.receive(Hello("b", epoch, peer_epoch, received, first, role=role), now=0.0)


def state(received=4, outbox=2):
    return SessionState(OURS, THEIRS, received, outbox=[b"old"] * outbox)


def is_outdated(effects):
    kinds = [type(effect) for effect in effects]
    assert (Outdated in kinds) is (kinds == [Outdated, Hangup])
    return Outdated in kinds


def test_a_neighbour_that_has_had_more_than_was_ever_numbered():
    session, effects = meet(state(outbox=2), received=3)
    assert is_outdated(effects)
    assert "b has had 3 payloads of a, which remembers 2" in effects[0].reason
    assert session.phase is not SessionPhase.UP


def test_a_neighbour_that_was_confirmed_more_than_was_received():
    _, effects = meet(state(received=4), first=6)
    assert is_outdated(effects)
    assert "a has confirmed 5 to b, and remembers 4" in effects[0].reason


@pytest.mark.parametrize("before", [1, 2, 50])
def test_what_was_numbered_since_the_start_hides_nothing(before):
    """Else new payloads would have the numbers of those that the neighbour has, and be dropped as received."""
    assert is_outdated(meet(state(outbox=2), received=3, before=before)[1])


@pytest.mark.parametrize("received", [0, 1, 2])
@pytest.mark.parametrize("first", [1, 4, 5])
def test_a_broker_that_remembers_everything_goes_on(received, first):
    assert Up() in meet(state(), received=received, first=first)[1]


def test_once_met_what_was_sent_since_then_counts():
    session, effects = meet(state(outbox=2), received=2)
    assert Up() in effects
    session.send(b"third", now=0.0)
    session.disconnected()
    session.connected(now=1.0)
    assert Up() in session.receive(Hello("b", THEIRS, OURS, 3, 1), now=1.0)


@pytest.mark.parametrize("epochs", [(THEIRS + 1, OURS), (THEIRS, OURS - 1), (THEIRS + 1, 0), (THEIRS - 1, OURS)])
def test_it_is_no_proof_by_whoever_does_not_know_both_epochs(epochs):
    epoch, peer_epoch = epochs
    assert not is_outdated(meet(state(), received=9, first=9, epoch=epoch, peer_epoch=peer_epoch)[1])


@pytest.mark.parametrize("roles", [(BROKER, CLIENT), (CLIENT, BROKER)])
def test_clients_are_given_up_for_other_reasons(roles):
    assert not is_outdated(meet(state(), received=9, first=9, roles=roles)[1])
