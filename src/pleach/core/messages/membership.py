"""Messages of AddBroker and RemoveBroker (S0 §IV-B, §IV-C; docs/protocols/membership.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from pleach.core.access.client_access import ClientAccess
from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.messages.base import Layer, Life, Message, NetworkAddress, Node
from pleach.core.messages.clients import ClientRequest
from pleach.core.messages.requests import RequestAdd, RequestRemove
from pleach.core.messages.swaplink import TableEntries


class Connect(Message, frozen=True, tag=112):
    """A new broker b asks a to be its neighbour. `address`: where b listens."""

    operation: str
    address: NetworkAddress = ""


class ConnectAck(Message, frozen=True, tag=113):
    """a has accepted b. `told`: the entries that b has to know."""

    operation: str
    told: list[TableEntries] = msgspec.field(default_factory=list)


class ConnectNack(Message, frozen=True, tag=114):
    operation: str
    reason: str


class RemoveReq(Message, frozen=True, tag=115):
    """b, a leaf, asks its neighbour a to let it go."""

    operation: str


class RemoveAck(Message, frozen=True, tag=116):
    operation: str


class RemoveNack(Message, frozen=True, tag=117):
    """`is_busy`: b may ask again later."""

    operation: str
    reason: str
    is_busy: bool = False


class HandedClient(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client as its broker hands it over. `confirmed`, `waiting`: its requests that are, and are not, confirmed.

    `access`: its rights where it was. Its new broker judges it by its own settings.
    """

    name: Node
    own_events: bool
    subscriptions: dict[str, Filter]
    advertisements: dict[str, Filter]
    confirmed: list[str]
    waiting: list[tuple[Layer, str]]
    access: ClientAccess = msgspec.field(default_factory=ClientAccess)


class Handover(Message, frozen=True, tag=118):
    """b → a: b's clients. From now on b relays to a what they still send to it."""

    operation: str
    clients: list[HandedClient]


class CloseAB(Message, frozen=True, tag=119):
    """a → b, close(ab): a serves the clients itself, at `address`; a sends nothing more for them through b.

    `life`: a's epoch; in a later one it does not know them.
    """

    operation: str
    address: NetworkAddress = ""
    life: Life = 0


class Redirect(Message, frozen=True, tag=120):
    """b → client, close(ab): b's last message to it. The client connects to `broker`, which listens at `address`.

    `life`: the epoch in which `broker` knows the client.
    """

    broker: Node
    address: NetworkAddress = ""
    life: Life = 0


class Farewell(Message, frozen=True, tag=121):
    """client → b, close(ba): the client's last message to b."""


class Said(Message, frozen=True, tag=122):
    """b → a: a request that a client still sent to b. `access`: who it is, where it attaches: it logged in at b."""

    client: Node
    request: ClientRequest
    access: ClientAccess | None = None

    @property
    def events(self) -> Sequence[Event]:
        return self.request.events


class ClientLeft(Message, frozen=True, tag=123):
    """b → a, close(ba) for one client: b relays nothing more of it."""

    operation: str
    client: Node


class Left(Message, frozen=True, tag=124):
    """b → a: b has no clients any more, and has left."""

    operation: str


class ConnectAbandoned(Message, frozen=True, tag=125):
    """b → a, behind `Connect`: b does not join here after all."""

    operation: str


class RemoveAbandoned(Message, frozen=True, tag=126):
    """b → a, behind `RemoveReq` and instead of `Handover`: b does not leave after all."""

    operation: str


MembershipMessage: TypeAlias = (
    RequestAdd
    | RequestRemove
    | Connect
    | ConnectAck
    | ConnectNack
    | RemoveReq
    | RemoveAck
    | RemoveNack
    | Handover
    | CloseAB
    | Said
    | Farewell
    | ClientLeft
    | Left
    | ConnectAbandoned
    | RemoveAbandoned
)
