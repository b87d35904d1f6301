"""The seam while a broker joins, or while the clients of one that leaves cross to its neighbour.

And what a broker does that takes a client over, whatever for (mobility/ does so, too).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from pleach.core.effects import Observe, Send, phase_seen
from pleach.core.events.event import EventId
from pleach.core.messages import (
    CLIENT_REQUESTS,
    PUB_SUB,
    ClientLeft,
    ClientRequest,
    CloseAB,
    ConnectAck,
    ConnectNack,
    Detach,
    Farewell,
    HandedClient,
    Handover,
    Layer,
    Left,
    Message,
    Node,
    Publish,
    Redirect,
    RemoveAck,
    RemoveNack,
    Said,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.retries import Retries
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket

RETRY: Final = "membership:retry:"


class MembershipRole(IntEnum):
    """What this broker does in a change of membership: join or leave itself, or be the neighbour of one that leaves."""

    JOINING = 0
    LEAVING = 1
    INHERITING = 2


class MembershipPhase(IntEnum):
    ASKED = 1  # the other side has not answered
    HANDED = 2  # the clients are a's; b passes on what they send, and delivers what a sent before
    CLOSED = 3  # nothing more comes from a by way of b; clients are on their way


class Speaker(StrEnum):
    PARTNER = "the other broker"
    CLIENT = "a client that has been sent on"


# Who may say what, and when. What is not here, or said by another one, is that one's fault, and changes nothing.
EXPECTED: Mapping[tuple[MembershipRole, MembershipPhase, type[Message]], Speaker] = MappingProxyType(
    {
        (MembershipRole.JOINING, MembershipPhase.ASKED, ConnectAck): Speaker.PARTNER,
        (MembershipRole.JOINING, MembershipPhase.ASKED, ConnectNack): Speaker.PARTNER,
        (MembershipRole.LEAVING, MembershipPhase.ASKED, RemoveAck): Speaker.PARTNER,
        (MembershipRole.LEAVING, MembershipPhase.ASKED, RemoveNack): Speaker.PARTNER,
        (MembershipRole.LEAVING, MembershipPhase.HANDED, CloseAB): Speaker.PARTNER,
        (MembershipRole.LEAVING, MembershipPhase.CLOSED, Farewell): Speaker.CLIENT,
        (MembershipRole.INHERITING, MembershipPhase.ASKED, Handover): Speaker.PARTNER,
        (MembershipRole.INHERITING, MembershipPhase.CLOSED, Said): Speaker.PARTNER,
        (MembershipRole.INHERITING, MembershipPhase.CLOSED, ClientLeft): Speaker.PARTNER,
        (MembershipRole.INHERITING, MembershipPhase.CLOSED, Left): Speaker.PARTNER,
    }
)


class Changing(msgspec.Struct):
    """One change of membership at one of its two brokers. `partner`: the other one.

    `clients`: those on their way, and whether each has been told where to go in the life that it is in.
    `absent`: as in `RequestRemove`.
    """

    operation: str
    part: MembershipRole
    partner: Node
    phase: MembershipPhase = MembershipPhase.ASKED
    clients: dict[Node, bool | None] = {}  # None: as written by versions that did not note it
    partner_address: str = ""  # where the partner listens for clients
    partner_life: int = 0  # which knows them
    absent: list[Node] = []
    said: list[Said] = []  # at b: passed on since the handover, without events; a may forget it
    waiting: dict[Node, list[tuple[Layer, str]]] = {}  # at b: what clients waited for then
    passed_on: dict[Node, list[EventId]] = {}  # at b, HANDED: events of its clients, which a confirms to them


class MembershipState(msgspec.Struct):
    change: Changing | None = None
    attempts: int = 0
    left: Node = ""  # the neighbour of a broker that was removed: nobody can join the tree here
    sent_on: dict[Node, bool] = {}  # to an heir that has lost its memory since, and whether they have said farewell
    is_turned_away: bool = False  # it could not join itself: with whoever joined it, it would be a second tree
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))


class HandoverSeam:
    """What arrives and leaves while clients cross from b to a."""

    keeps_causal_order = True

    def __init__(self, change: Changing) -> None:
        self._change = change

    @property
    def peers(self) -> frozenset[Node]:
        """A broker that joins counts its neighbour-to-be among its links."""
        return frozenset((self._change.partner,))

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if message.__class__ in CLIENT_REQUESTS:
            return self._request(sender, message)  # type: ignore[arg-type]
        return stale(sender, message)

    def _request(self, client: Node, request: ClientRequest) -> Verdict:
        change = self._change
        match change.part, change.phase:
            case MembershipRole.JOINING, _:
                change.clients[client] = False
                return Hold()  # what is published now is for the tree that this broker is joining
            case MembershipRole.LEAVING, MembershipPhase.HANDED | MembershipPhase.CLOSED:
                return Drop("passed on", self._pass_on(client, request))
            case MembershipRole.INHERITING, _ if client in change.clients:
                return Hold()  # what it sent by way of b comes first
        return Pass(client, request)

    def _pass_on(self, client: Node, request: ClientRequest) -> Sequence[Send]:
        """A client that came after the handover goes the same way as the others.

        So does one that has lost its memory: what its former life was told is void.
        """
        change = self._change
        is_at_its_end = isinstance(request, Detach) and client in change.clients
        is_to_be_told = change.phase is MembershipPhase.CLOSED and not is_at_its_end and not change.clients.get(client)
        change.clients[client] = is_to_be_told or (change.clients.get(client, False) and not is_at_its_end)
        redirected = [Send(client, redirect(change))] if is_to_be_told else []
        said = Said(client, request)
        if not isinstance(request, Publish):
            change.said.append(said)
        elif (
            change.phase is MembershipPhase.HANDED
        ):  # later on clients are told where to go, and hear what becomes of it there
            change.passed_on.setdefault(client, []).append(request.event.id)
        return [Send(change.partner, said), *redirected]

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        """After the handover b owes a nothing: a has it all."""
        change = self._change
        if change.part is not MembershipRole.LEAVING or change.phase is MembershipPhase.ASKED:
            return sends
        return [send for send in sends if not (send.to == change.partner and send.message.__class__ in PUB_SUB)]


def why_not(change: Changing, sender: Node, message: Message) -> str:
    """Why it does not fit a change of membership; empty where it does."""
    speaker = EXPECTED.get((change.part, change.phase, type(message)))
    if speaker is None:
        return f"it does not fit the state of the operation, {change.part.name} {change.phase.name}"
    if speaker is Speaker.PARTNER and sender != change.partner:
        return f"it is for {change.partner} to say"
    if not isinstance(message, Said | Farewell) and message.operation != change.operation:  # type: ignore[attr-defined]
        return f"operation {change.operation} is under way here"
    if isinstance(message, ClientLeft) and message.client not in change.clients:
        return f"{message.client} is not on its way here"
    return ""


def redirect(change: Changing) -> Redirect:
    return Redirect(change.partner, change.partner_address, change.partner_life)


def tables_of(client: HandedClient) -> dict[Layer, list[Entry]]:
    """What a client that is handed over has asked for, as entries."""
    names = {Layer.SUBSCRIPTIONS: client.subscriptions, Layer.ADVERTISEMENTS: client.advertisements}
    return {layer: [Entry(owner(client.name, name), f) for name, f in named.items()] for layer, named in names.items()}


def confirm(context: BrokerContext, client: Node, waiting: Sequence[tuple[Layer, str]]) -> list[Send]:
    """What waited for confirmation at its former broker waits here for all that is unanswered."""
    tickets = [Ticket(layer, client, name) for layer, name in waiting]
    return [send for ticket in tickets for send in context.answered(context.router.wait_for_all(ticket))]


def note(change: Changing) -> Observe:
    return phase_seen("membership", change.operation, f"{change.part.name.lower()} {change.phase.name.lower()}")
