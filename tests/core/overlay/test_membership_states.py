"""Every state of a change of membership meets every message from everyone: the table says who may say what, and when.

Clients are not trusted: whatever one says, its broker stays, and so does the operation.
"""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Concluded, LinkDown, Send
from pleach.core.messages import (
    OPERATOR,
    Attach,
    ClientLeft,
    CloseAB,
    Connect,
    ConnectAck,
    ConnectNack,
    Detach,
    Farewell,
    HandedClient,
    Handover,
    Left,
    MembershipMessage,
    Redirect,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestAdd,
    RequestRemove,
    Said,
)
from pleach.core.overlay.membership.handover import EXPECTED, MembershipPhase, MembershipRole, Speaker
from pleach.core.overlay.membership.machine import Membership
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError

HANDED = HandedClient("k", own_events=True, subscriptions={}, advertisements={}, confirmed=[], waiting=[])
MESSAGES = (
    ConnectAck("1"),
    ConnectNack("1", "no"),
    RemoveAck("1"),
    RemoveNack("1", "no"),
    Handover("1", [HANDED]),
    CloseAB("1", "here:1"),
    Said("k", Attach()),
    Farewell(),
    ClientLeft("1", "k"),
    Left("1"),
)
BEGINNINGS = {RequestAdd, RequestRemove, Connect, RemoveReq}  # these are answered, not raised
STATES = sorted({(part, phase) for part, phase, _ in EXPECTED})
SENDERS = {Speaker.PARTNER: "n", Speaker.CLIENT: "k"}


def broker_in(part, phase):
    """`n` is the partner, `k` a client, which is on its way if clients are."""
    is_joining = part is MembershipRole.JOINING
    broker = Broker("b", RoutingConfig("simple"), neighbours=() if is_joining else ["n"], machines=[Membership])
    match part:
        case MembershipRole.JOINING:
            broker.handle(OPERATOR, RequestAdd("1", "n", "there:1"), now=0.0)
            broker.handle("k", Attach(), now=0.0)
        case MembershipRole.LEAVING:
            broker.handle("k", Attach(), now=0.0)
            broker.handle(OPERATOR, RequestRemove("1", "b"), now=0.0)
            said = [RemoveAck("1"), CloseAB("1", "there:1")]
        case MembershipRole.INHERITING:
            broker.handle("n", RemoveReq("1"), now=0.0)
            said = [None, Handover("1", [HANDED])]  # HANDED is a state of the one that leaves
    for message in [] if is_joining else said[: phase - MembershipPhase.ASKED]:
        if message is not None:
            broker.handle("n", message, now=0.0)
    return broker


def sent(effects):
    return [(e.to, e.message) for e in effects if isinstance(e, Send)]


def test_all_messages_and_states_are_tried():
    assert {type(message) for message in MESSAGES} | BEGINNINGS == set(get_args(MembershipMessage))
    for part, phase in STATES:
        change = broker_in(part, phase).machine(Membership)._state.change
        assert (change.part, change.phase) == (part, phase)


@pytest.mark.parametrize("sender", ["n", "k", "a stranger"])
@pytest.mark.parametrize(("state", "message"), list(product(STATES, MESSAGES)), ids=lambda x: type(x).__name__)
def test_what_does_not_fit_changes_nothing(state, message, sender):
    broker = broker_in(*state)
    speaker = EXPECTED.get((*state, type(message)))
    if speaker and SENDERS[speaker] == sender:
        before = broker.capture()
        broker.handle(sender, message, now=0.0)
        assert broker.capture() != before
        return
    before = broker.capture()
    if isinstance(message, Farewell) and speaker:  # of one that is not waited for, or not any more
        assert broker.handle(sender, message, now=0.0) == []
    else:
        with pytest.raises(ProtocolError):
            broker.handle(sender, message, now=0.0)
    assert broker.capture() == before


@pytest.mark.parametrize("message", [m for m in MESSAGES if not isinstance(m, Said | Farewell)])
def test_what_is_left_over_from_another_operation_changes_nothing(message):
    other = type(message)("2", *[getattr(message, name) for name in message.__struct_fields__[1:]])
    for state in STATES:
        broker = broker_in(*state)
        before = broker.capture()
        with pytest.raises(ProtocolError):
            broker.handle("n", other, now=0.0)
        assert broker.capture() == before


def test_one_is_said_to_have_left_who_is_not_on_its_way():
    broker = broker_in(MembershipRole.INHERITING, MembershipPhase.CLOSED)
    before = broker.capture()
    with pytest.raises(ProtocolError, match="is not on its way"):
        broker.handle("n", ClientLeft("1", "someone"), now=0.0)
    assert broker.capture() == before


def test_a_farewell_counts_once_also_after_the_last_client_has_gone():
    """The driver says it in the name of a client that was away; its own may still come."""
    broker = broker_in(MembershipRole.LEAVING, MembershipPhase.CLOSED)
    broker.handle("late", Attach(), now=0.0)
    assert sent(broker.handle("k", Farewell(), now=0.0)) == [("n", ClientLeft("1", "k"))]
    assert broker.handle("k", Farewell(), now=0.0) == []
    effects = broker.handle("late", Farewell(), now=0.0)
    assert Concluded("1") in effects
    assert LinkDown("n") in effects
    assert broker.handle("late", Farewell(), now=0.0) == []


def test_a_client_does_not_end_the_joining_of_its_broker():
    broker = broker_in(MembershipRole.JOINING, MembershipPhase.ASKED)
    with pytest.raises(ProtocolError):
        broker.handle("k", Farewell(), now=0.0)
    effects = broker.handle("n", ConnectAck("1"), now=0.0)
    assert Concluded("1") in effects
    assert broker.router.neighbours == ["n"]
    assert broker.sessions.clients == ["k"]


def test_only_a_neighbour_is_let_go():
    broker = Broker("b", RoutingConfig("simple"), neighbours=["n"], machines=[Membership])
    [(to, nack)] = sent(broker.handle("someone", RemoveReq("1"), now=0.0))
    assert (to, nack.is_busy) == ("someone", False)
    assert not broker.operation


# Clients that lose their memory meanwhile --------------------------------------------------------------------------


def redirects(effects):
    return [to for to, message in sent(effects) if isinstance(message, Redirect)]


def test_a_client_that_has_lost_its_memory_is_sent_on_again():
    """The redirection went to its former life."""
    broker = broker_in(MembershipRole.LEAVING, MembershipPhase.CLOSED)
    assert sent(broker.peer_reset("k")) == [("n", Said("k", Detach()))]
    assert sent(broker.handle("k", Attach(), now=0.0)) == [("n", Said("k", Attach())), ("k", Redirect("n", "there:1"))]
    assert sent(broker.handle("k", Farewell(), now=0.0))[0] == ("n", ClientLeft("1", "k"))


def test_each_life_is_sent_on_once():
    """A second redirection would wait at the client for the day on which it comes back here."""
    broker = broker_in(MembershipRole.LEAVING, MembershipPhase.CLOSED)
    assert redirects(broker.handle("k", Attach(), now=0.0)) == [], "it is a renewal"
    broker.peer_reset("k")
    assert redirects(broker.handle("k", Attach(), now=0.0)) == ["k"]
    assert redirects(broker.handle("k", Attach(), now=0.0)) == []
    assert redirects(broker.handle("late", Attach(), now=0.0)) == ["late"]
    assert redirects(broker.handle("late", Attach(), now=0.0)) == []


def test_one_that_loses_its_memory_before_it_is_sent_on_is_sent_on_once():
    broker = broker_in(MembershipRole.LEAVING, MembershipPhase.HANDED)
    broker.peer_reset("k")
    assert redirects(broker.handle("k", Attach(), now=0.0)) == []
    assert redirects(broker.handle("n", CloseAB("1", "there:1"), now=0.0)) == ["k"]
    assert redirects(broker.handle("k", Attach(), now=0.0)) == []


def test_what_former_versions_wrote_of_clients_on_their_way_can_be_read():
    former = broker_in(MembershipRole.LEAVING, MembershipPhase.CLOSED)
    former.machine(Membership)._state.change.clients = {"k": None}
    broker = broker_in(MembershipRole.LEAVING, MembershipPhase.CLOSED)
    broker.restore(former.capture())
    assert sent(broker.handle("k", Farewell(), now=0.0))[0] == ("n", ClientLeft("1", "k"))
