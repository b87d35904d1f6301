"""Every state of a movement, in every role, meets every message, and the lack of one: the tables say what then."""

from __future__ import annotations

from itertools import product
from typing import get_args

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    OPERATOR,
    Approve,
    Attach,
    Halt,
    Halted,
    HandedClient,
    Install,
    MoveAbort,
    MoveAck,
    MoveCommit,
    MovementMessage,
    MoveState,
    Negotiate,
    Reject,
    RequestMove,
    Resume,
    Subscribe,
    decode,
    encode,
)
from pleach.core.mobility import machine
from pleach.core.mobility.machine import TOWARDS_SOURCE, Mobility, MobilityState
from pleach.core.mobility.movements import PathMovement, SourceMovement, TargetMovement
from pleach.core.mobility.phases import (
    CLIENT_TRANSITIONS,
    TRANSITIONS,
    AfterReborn,
    BeforeReborn,
    ClientPhase,
    ClientReborn,
    Late,
    PathPhase,
    SourcePhase,
    TargetPhase,
)
from pleach.core.mobility.source import TIMER
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError

WANTED = parse_filter("x > 1")
CLIENT = HandedClient("k", own_events=True, subscriptions={"s": WANTED}, advertisements={}, confirmed=[], waiting=[])
REQUEST = RequestMove("1", "k", ["left", "here", "right"])
MESSAGES = (
    Negotiate("1", CLIENT, ["left", "here", "right"]),
    Approve("1"),
    Reject("1", "no room"),
    MoveState("1", CLIENT),
    MoveAck("1"),
    MoveCommit("1"),
    MoveAbort("1"),
    Halted("1"),
)
PHASES = [*SourcePhase, *TargetPhase, *PathPhase]


def movement_in(phase):
    match phase:
        case SourcePhase():
            return SourceMovement(RequestMove("1", "k", ["here", "right"]), 0, phase=phase)
        case TargetPhase():
            return TargetMovement("1", CLIENT, "left", 0, phase)
        case PathPhase():
            return PathMovement("1", "k", "left", "right", phase)


def broker_in(phase):
    """A broker between two others, with the client where it is in this phase."""
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    is_here = phase in SourcePhase or phase is TargetPhase.COMMITTED
    if is_here:
        broker.handle("k", Attach(), now=0.0)
        broker.handle("k", Subscribe("s", WANTED), now=0.0)
    state = MobilityState({"1": movement_in(phase)})
    movements = broker.machine(Mobility)
    movements._state = state
    movements.restore(movements.capture())
    broker.restore(broker.capture())
    return broker


def sender_of(message, phase):
    if isinstance(message, Halted):
        return "k"
    return "right" if type(message) in TOWARDS_SOURCE else "left"


def phase_of(broker):
    return next((m.phase for m in broker.machine(Mobility).movements), None)


def test_all_messages_are_tried():
    assert {type(message) for message in MESSAGES} | {RequestMove} == set(get_args(MovementMessage))
    assert {phase for phase, _ in TRANSITIONS} == set(PHASES)


@pytest.mark.parametrize(("phase", "message"), list(product(PHASES, MESSAGES)), ids=lambda x: type(x).__name__)
def test_what_the_table_has_leads_where_it_says_and_nothing_else_is_taken(phase, message):
    broker = broker_in(phase)
    sender = sender_of(message, phase)
    if (phase, type(message)) not in TRANSITIONS:
        before = broker.capture()
        with pytest.raises(ProtocolError):
            broker.handle(sender, message, now=0.0)
        assert broker.capture() == before
        return
    broker.handle(sender, message, now=0.0)
    assert phase_of(broker) in TRANSITIONS[phase, type(message)]


@pytest.mark.parametrize("phase", PHASES)
def test_what_does_not_come_in_time(phase):
    """Where the table has no such row, no timer is set."""
    broker = broker_in(phase)
    if (phase, Late) not in TRANSITIONS:
        assert not [e for e in broker.resume(now=0.0) if getattr(e, "name", "").startswith(TIMER)]
        return
    broker.handle_timer(f"{TIMER}1", now=0.0)
    assert phase_of(broker) in TRANSITIONS[phase, Late]


PEERS = {"k": ClientReborn, "left": BeforeReborn, "right": AfterReborn}


@pytest.mark.parametrize(("phase", "peer"), list(product(PHASES, PEERS)))
def test_a_peer_that_loses_its_memory(phase, peer):
    """It changes the movement where the table has it, and no other movement."""
    broker = broker_in(phase)
    before = broker.machine(Mobility).capture()
    broker.machine(Mobility).peer_reset(peer)
    if (phase, PEERS[peer]) in TRANSITIONS:
        assert phase_of(broker) in TRANSITIONS[phase, PEERS[peer]]
    else:
        assert broker.machine(Mobility).capture() == before


MESSAGE_ROWS = [row for row in TRANSITIONS if row[1] in {type(message) for message in MESSAGES}]
BY_TYPE = {type(message): message for message in MESSAGES}


@pytest.mark.parametrize("row", MESSAGE_ROWS, ids=lambda row: f"{row[0]}-{row[1].__name__}")
def test_a_table_that_lacks_a_row_or_has_a_wrong_one_is_noticed(row, monkeypatch):
    phase, message = row[0], BY_TYPE[row[1]]
    monkeypatch.setattr(machine, "TRANSITIONS", {each: after for each, after in TRANSITIONS.items() if each != row})
    with pytest.raises(ProtocolError, match="does not fit"):
        broker_in(phase).handle(sender_of(message, phase), message, now=0.0)
    monkeypatch.setattr(machine, "TRANSITIONS", {**TRANSITIONS, row: ("somewhere else",)})
    with pytest.raises(AssertionError):
        broker_in(phase).handle(sender_of(message, phase), message, now=0.0)


# The client -------------------------------------------------------------------------------------------------------

TO_CLIENTS = (Halt("1"), Resume("1", "here"))


@pytest.mark.parametrize(("phase", "message"), list(product(ClientPhase, TO_CLIENTS)), ids=str)
def test_a_client_changes_its_phase_as_the_table_says(phase, message):
    client = client_in(phase)
    client.handle("here", message, now=0.0)
    assert client._state.phase is CLIENT_TRANSITIONS[phase, type(message)]


@pytest.mark.parametrize(("phase", "message"), list(product(ClientPhase, MESSAGES)), ids=lambda x: type(x).__name__)
def test_a_client_refuses_what_is_for_brokers(phase, message):
    client = client_in(phase)
    before = client.capture()
    with pytest.raises(ProtocolError, match="brokers do not send this to clients"):
        client.handle("here", message, now=0.0)
    assert client.capture() == before


def test_every_phase_of_a_client_is_in_its_table():
    assert set(CLIENT_TRANSITIONS) == set(product(ClientPhase, map(type, TO_CLIENTS)))


def client_in(phase):
    client = ClientMachine("k", "here")
    client.attach()
    if phase is ClientPhase.HALTED:
        client.handle("here", Halt("1"), now=0.0)
    return client


# Restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_restart_changes_nothing(phase):
    broker = broker_in(phase)
    again = broker_in(phase)
    again.restore(broker.capture())
    assert again.capture() == broker.capture()
    assert [e.name for e in again.resume(now=0.0)] == [e.name for e in broker.resume(now=0.0)]
    assert again.operation == "1"


@pytest.mark.parametrize("message", MESSAGES[1:], ids=lambda x: type(x).__name__)
def test_what_is_left_over_from_a_movement_that_is_over_is_ignored_but_for_an_approval(message):
    """Whoever has approved would wait for a client that does not come."""
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    answered = [Send("left", MoveAbort(message.operation))] if isinstance(message, Approve) else []
    assert list(broker.handle("left", message, now=0.0)) == answered


@pytest.mark.parametrize(("phase", "message"), list(product(PHASES, MESSAGES)), ids=lambda x: type(x).__name__)
def test_only_those_may_speak_whose_turn_it_is(phase, message):
    with pytest.raises(ProtocolError, match="to say"):
        broker_in(phase).handle("stranger", message, now=0.0)


# Requests ---------------------------------------------------------------------------------------------------------


def asked(*path, client="k"):
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    broker.handle("k", Attach(), now=0.0)
    return broker.handle(OPERATOR, RequestMove("1", client, list(path)), now=0.0)


@pytest.mark.parametrize(
    ("effects", "reason"),
    [
        (asked("here", "right", client="nobody"), "here has no client nobody"),
        (asked("here"), "k is at here already"),
        (asked("here", "far", "right"), "here and far are no neighbours"),
        (asked("here", "right", "here"), "twice by one broker"),
    ],
)
def test_requests_that_cannot_be(effects, reason):
    [end] = effects
    assert isinstance(end, Concluded)
    assert reason in end.refusal


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (["left", "here", "gone"], "here and gone are no neighbours"),
        (["left", "elsewhere"], "find the path anew"),
        (["here", "left"], "find the path anew"),
        (["right", "here"], "find the path anew"),
        (["left", "here"], "here has a client k already"),
    ],
)
def test_negotiations_that_cannot_be(path, says):
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    broker.handle("k", Attach(), now=0.0)
    [rejected] = broker.handle("left", Negotiate("1", CLIENT, path), now=0.0)
    assert rejected.to == "left"
    assert says in rejected.message.reason
    assert not rejected.message.is_busy
    assert not broker.operation


@pytest.mark.parametrize("name", ["here", "right"])
def test_clients_are_not_named_like_brokers(name):
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    named = msgspec.structs.replace(CLIENT, name=name)
    [rejected] = broker.handle("left", Negotiate("1", named, ["left", "here"]), now=0.0)
    assert f"{name} is the name of a broker" in rejected.message.reason


def test_the_approval_follows_what_is_installed():
    """On the same link: whatever the next broker passes on after it knows of it goes both ways."""
    broker = Broker("here", RoutingConfig("simple"), neighbours=["left", "right"], machines=[Mobility])
    effects = broker.handle("left", Negotiate("1", CLIENT, ["left", "here"]), now=0.0)
    to_left = [e.message for e in effects if isinstance(e, Send) and e.to == "left"]
    assert [type(message) for message in to_left] == [Install, Approve]


def test_a_client_that_has_left_meanwhile_is_not_moved():
    broker = broker_in(SourcePhase.HALTING)
    broker.sessions.handle("k", decode(encode(Subscribe("t", WANTED))))
    broker._context.sessions._clients.clear()
    effects = broker.handle("k", Halted("1"), now=0.0)
    sent = [(e.to, type(e.message)) for e in effects if isinstance(e, Send)]
    assert sent == [("k", Resume), ("right", MoveAbort)]
    assert phase_of(broker) is SourcePhase.ABORTING
