"""AddBroker and RemoveBroker, states × messages: each of them from everybody in every (role, phase) of TRANSITIONS.

What the table has is handled and leads to its phase; whatever else is refused with ProtocolError, and changes nothing.
Clients are not trusted: whatever one says, its broker stays, and so does the operation.
"""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import get_args

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Concluded, LinkDown, Send
from pleach.core.messages import (
    OPERATOR,
    Attach,
    ClientLeft,
    CloseAB,
    Connect,
    ConnectAbandoned,
    ConnectAck,
    ConnectNack,
    Detach,
    Farewell,
    HandedClient,
    Handover,
    Left,
    MembershipMessage,
    Redirect,
    RemoveAbandoned,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestAdd,
    RequestRemove,
    Said,
)
from pleach.core.overlay.membership import state as membership_state
from pleach.core.overlay.membership.machine import Membership
from pleach.core.overlay.membership.transitions import (
    BEGINNINGS,
    LATE,
    PAPER,
    TRANSITIONS,
    MembershipPhase,
    MembershipRole,
    Speaker,
)
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
    RemoveAbandoned("1"),
)
REQUESTS = (RequestAdd("2", "m"), RequestRemove("2", "b"), Connect("2"), RemoveReq("2"), ConnectAbandoned("2"))
STATES = sorted({(role, phase) for role, phase, _, _ in PAPER if phase})
SENDERS = {"n": Speaker.PARTNER, "k": Speaker.CLIENT, "a stranger": Speaker.OTHER}


def broker_in(role, phase):
    """`n` is the partner, `k` a client, which is on its way if clients are."""
    is_joining = role is MembershipRole.JOINING
    broker = Broker("b", RoutingConfig("simple"), neighbours=() if is_joining else ["n"], machines=[Membership])
    match role:
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


def reached(broker):
    """The phase that a change of membership has at a broker."""
    change = broker.machine(Membership)._state.change
    return MembershipPhase.IDLE if change is None else change.phase


def sent(effects):
    return [(e.to, e.message) for e in effects if isinstance(e, Send)]


def test_all_messages_and_states_are_tried():
    assert {type(message) for message in (*MESSAGES, *REQUESTS)} == set(get_args(MembershipMessage))
    assert {type(message) for message in REQUESTS} == set(BEGINNINGS)
    for role, phase in STATES:
        change = broker_in(role, phase).machine(Membership)._state.change
        assert (change.role, change.phase) == (role, phase)


def expected(state_of, message, sender, table=TRANSITIONS):
    """The phase that the table has for this; None where it is refused. A farewell that nobody waits for is ignored."""
    role, phase = state_of
    speaker = SENDERS[sender]
    if isinstance(message, Farewell) and state_of == (MembershipRole.LEAVING, MembershipPhase.CLOSED):
        speaker = Speaker.CLIENT
    if sender == "k" and (role, phase) == (MembershipRole.INHERITING, MembershipPhase.ASKED):
        speaker = Speaker.OTHER  # it is not on its way yet
    return table.get((role, phase, type(message), speaker))


def check(state_of, message, sender, table=TRANSITIONS):
    broker = broker_in(*state_of)
    before = broker.capture()
    following = expected(state_of, message, sender, table)
    if following is None:
        with pytest.raises(ProtocolError):
            broker.handle(sender, message, now=0.0)
        assert broker.capture() == before
        return
    broker.handle(sender, message, now=0.0)
    is_last = isinstance(message, Farewell) and sender == "k"
    assert reached(broker) is (MembershipPhase.IDLE if is_last else following)
    is_ignored = isinstance(message, Farewell) and not is_last
    assert isinstance(message, BEGINNINGS) or (broker.capture() == before) == is_ignored


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize(
    ("state_of", "message"), list(product(STATES, (*MESSAGES, *REQUESTS))), ids=lambda x: type(x).__name__
)
def test_a_message_is_in_the_table_or_refused(state_of, message, sender):
    check(state_of, message, sender)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda x: type(x).__name__)
def test_nothing_but_requests_begins_a_change(message):
    broker = Broker("b", RoutingConfig("simple"), neighbours=["n"], machines=[Membership])
    before = broker.capture()
    drop_or_refuse(broker, message)
    assert broker.capture() == before


def drop_or_refuse(broker, message):
    """What may be late of an operation that was abandoned here is dropped."""
    if isinstance(message, LATE):
        assert broker.handle("n", message, now=0.0) == []
        return
    with pytest.raises(ProtocolError):
        broker.handle("n", message, now=0.0)


STEPS = [key for key in PAPER if key[1]]


@pytest.mark.parametrize(
    "key", STEPS, ids=lambda key: "-".join(getattr(part, "name", "") or part.__name__ for part in key)
)
def test_a_key_that_is_missing_is_noticed(key, monkeypatch):
    """The mutant: the suite reads the right table, the machine one that lacks a key."""
    monkeypatch.setattr(
        membership_state, "TRANSITIONS", MappingProxyType({k: v for k, v in TRANSITIONS.items() if k != key})
    )
    [message] = [message for message in MESSAGES if type(message) is key[2]]
    with pytest.raises(ProtocolError):
        check(key[:2], message, "k" if key[3] is Speaker.CLIENT else "n")


def test_a_key_too_many_is_noticed(monkeypatch):
    key = (MembershipRole.LEAVING, MembershipPhase.HANDED, RemoveNack, Speaker.PARTNER)
    monkeypatch.setattr(membership_state, "TRANSITIONS", MappingProxyType({**TRANSITIONS, key: MembershipPhase.IDLE}))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check(key[:2], RemoveNack("1", "no"), "n")


@pytest.mark.parametrize("message", [m for m in MESSAGES if not isinstance(m, Said | Farewell)])
def test_what_is_left_over_from_another_operation_changes_nothing(message):
    other = type(message)("2", *[getattr(message, name) for name in message.__struct_fields__[1:]])
    for state in STATES:
        broker = broker_in(*state)
        before = broker.capture()
        drop_or_refuse(broker, other)
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


def test_a_client_that_is_called_like_a_neighbour_of_the_heir_is_not_taken_over():
    """The one that leaves cannot know. The session of that name is the neighbour's, and stays it."""
    broker = Broker("b", RoutingConfig("simple"), neighbours=["n", "m"], machines=[Membership])
    broker.handle("n", RemoveReq("1"), now=0.0)
    handed = [msgspec.structs.replace(HANDED, name=name) for name in ("b", "k", "m")]
    broker.handle("n", Handover("1", handed), now=0.0)
    broker.handle("n", Said("m", Attach()), now=0.0)
    assert broker.sessions.clients == ["k"]
    assert broker.router.neighbours == ["m"]


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
