"""Every message that travels between clients and brokers, and between brokers, in one place.

    client ── Attach, Publish, Subscribe, … ──▶ broker ── Forward, Install, Withdraw ──▶ broker
    client ◀── Attached, Published, Deliver, … ─ broker ◀── Installed ─────────────────── broker

A message is a frozen value. On the wire it is MessagePack with its type's name as a tag; a filter travels as its
canonical text. `encode` is the only codec there is: what the simulator counts as bytes is what a socket carries.
"""

from __future__ import annotations

from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec

from pleach.events.event import Event, EventId
from pleach.events.filter import Filter
from pleach.events.language import parse_asked, parse_internal

CONFIRMED_TOGETHER_MAX = 1_024  # events that one message confirms

Node: TypeAlias = str  # the name of a broker or a client; one name space for both
OPERATOR: Final = ""  # the sender of requests that come from nobody in the network


class Layer(IntEnum):
    """What is propagated: who wants events, and who will publish them. Both travel by the same mechanism."""

    SUBSCRIPTIONS = 0
    ADVERTISEMENTS = 1


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of all messages."""


# Client to broker ----------------------------------------------------------------------------------------------


class Attach(Message, frozen=True):
    """The first message of a client. `own_events`: whether it wants to get what it publishes itself."""

    own_events: bool = True


class Detach(Message, frozen=True):
    """The last message of a client: its subscriptions and advertisements end with it."""


class Publish(Message, frozen=True):
    event: Event


class Subscribe(Message, frozen=True):
    """`network_wide`: confirm only once every broker that must know the subscription does (else: at once)."""

    subscription: str
    filter: Filter
    network_wide: bool = True


class Unsubscribe(Message, frozen=True):
    subscription: str


class Advertise(Message, frozen=True):
    advertisement: str
    filter: Filter


class Unadvertise(Message, frozen=True):
    advertisement: str


# Broker to client ----------------------------------------------------------------------------------------------


class Attached(Message, frozen=True):
    pass


class Deliver(Message, frozen=True):
    event: Event


class Published(Message, frozen=True):
    """The broker has taken the event over: it will be delivered. `count`: with those just before it, that many."""

    event: EventId
    count: int = 1

    @property
    def events(self) -> list[EventId]:
        """All that it confirms, in order."""
        publisher, incarnation, last = self.event
        return [EventId(publisher, incarnation, sequence) for sequence in range(last - self.count + 1, last + 1)]


class PublishRefused(Message, frozen=True):
    """The event was not taken over and nobody will get it."""

    event: EventId
    reason: str


class Subscribed(Message, frozen=True):
    subscription: str


class Unsubscribed(Message, frozen=True):
    """Nothing is delivered for the subscription after this message."""

    subscription: str


class Advertised(Message, frozen=True):
    """Every subscription that the advertisement concerns is known where the publisher is."""

    advertisement: str


class Unadvertised(Message, frozen=True):
    advertisement: str


class Refused(Message, frozen=True):
    """A request other than Publish that was not carried out."""

    subject: str
    reason: str


# Broker to broker ----------------------------------------------------------------------------------------------


class Forward(Message, frozen=True):
    """An event on its way through the tree."""

    event: Event


class Install(Message, frozen=True):
    """Add an entry to what the sender wants (or advertises). `number` counts the sender's installs on this link."""

    layer: Layer
    number: int
    owner: str
    filter: Filter


class Withdraw(Message, frozen=True):
    """Take back an entry that was installed before."""

    layer: Layer
    owner: str
    filter: Filter


class Installed(Message, frozen=True):
    """The entry with this number is in effect at the sender of this message and everywhere behind it."""

    layer: Layer
    number: int


class Settle(Message, frozen=True):
    """Answer with `Installed(number)` once all that the sender has told is in effect, at the receiver and behind it.

    `beyond`: a neighbour of the receiver, over a link so new that the receiver cannot know what is in effect there.
    """

    layer: Layer
    number: int
    beyond: Node = ""


class Mark(IntEnum):
    FLOOD = 0  # sent to both others of a swap: not to be sent on among the three (S0 §IV-A, state 2)
    RELAY = 1  # sent on for another of the three: waits until the old path is closed (S0 §IV-A, ChangePath)


class Marked(Message, frozen=True):
    """An event that carries a mark of a reconfiguration, and by which of its brokers it came among them."""

    operation: str
    mark: Mark
    origin: Node
    message: Forward


# Reconfigurations: requests of an operator, to any broker --------------------------------------------------------


class RequestSwap(Message, frozen=True):
    """Turn a–b–c into a–c–b."""

    operation: str
    a: Node
    b: Node
    c: Node

    @property
    def begins_at(self) -> Node:
        return self.a


class RequestAdd(Message, frozen=True):
    """To a broker without neighbours: join the tree at `to`, which listens at `address`."""

    operation: str
    to: Node
    address: str = ""


class RequestRemove(Message, frozen=True):
    """Take a broker that is a leaf out of the tree; its clients go to its neighbour."""

    operation: str
    broker: Node

    @property
    def begins_at(self) -> Node:
        return self.broker


class Seek(Message, frozen=True):
    """Pass a request on to the broker where it begins, wherever in the tree that is."""

    request: RequestSwap | RequestRemove


class Sought(Message, frozen=True):
    """The answer to `Seek`: whether the broker is in this direction, and has the request."""

    operation: str
    is_found: bool


# SwapLink (S0 §IV-A; numbers as in docs/protocols/swaplink.md) ----------------------------------------------------


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Routing entries of one layer, owner and filter each."""

    layer: Layer
    entries: list[tuple[str, Filter]]


class Lock(Message, frozen=True):
    """1, 2: a → b → c. `address`: where a listens, for c to open the new link."""

    operation: str
    a: Node
    b: Node
    c: Node
    address: str = ""


class LockAck(Message, frozen=True):
    """3, 4: c → b → a. Also close(c→b→a): the last that c sends to a by way of b."""

    operation: str


class LockNack(Message, frozen=True):
    """b or c does not take part. `is_busy`: it may later."""

    operation: str
    reason: str
    is_busy: bool = False


class Abort(Message, frozen=True):
    """b has given the swap up, before it passed on `Swap`: back to the old tree."""

    operation: str


class Aborted(Message, frozen=True):
    """c → b → a, after `Abort`: nothing that was flooded follows."""

    operation: str


class Swap(Message, frozen=True):
    """5, 6: a → b → c. Also close(a→b→c). 7: c → a, on the new link.

    From b to c it carries what c cannot know: the sides of a and b apart, and how a's table differs from what c
    would compute for it (empty but where reductions do not compose). `is_settled`: nothing is unanswered between a
    and b; else c has to have both confirm what they were told.
    """

    operation: str
    side_a: list[Told] = []
    side_b: list[Told] = []
    known_at_a: list[Told] = []
    unknown_at_a: list[Told] = []
    root_is_behind_a: bool = False
    is_settled: bool = True


class Open(Message, frozen=True):
    """8: a → c, open(acb): from now on a's traffic to b comes here."""

    operation: str


class Close(Message, frozen=True):
    """9: a → b and 10: b → c, close(ab), for c also open(bca). 11: b → a and 12: a → c, close(ba)."""

    operation: str


# AddBroker and RemoveBroker (S0 §IV-B, §IV-C) ---------------------------------------------------------------------


class Connect(Message, frozen=True):
    """A new broker b asks a to be its neighbour. `address`: where b listens."""

    operation: str
    address: str = ""


class ConnectAck(Message, frozen=True):
    """a has taken b on; with all that b has to know."""

    operation: str
    told: list[Told] = []


class ConnectNack(Message, frozen=True):
    operation: str
    reason: str


class RemoveReq(Message, frozen=True):
    """b, a leaf, asks its neighbour a to let it go."""

    operation: str


class RemoveAck(Message, frozen=True):
    operation: str


class RemoveNack(Message, frozen=True):
    """`is_busy`: it may be asked again later."""

    operation: str
    reason: str
    is_busy: bool = False


class HandedClient(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client as its broker hands it over: all that it asked for, and what of that still waits for confirmation."""

    name: Node
    own_events: bool
    subscriptions: dict[str, Filter]
    advertisements: dict[str, Filter]
    confirmed: list[str]
    waiting: list[tuple[Layer, str]]


class Handover(Message, frozen=True):
    """b → a: b's clients. From now on b passes to a whatever they still send to it."""

    operation: str
    clients: list[HandedClient]


class CloseAB(Message, frozen=True):
    """a → b, close(ab): a serves the clients itself, at `address`; nothing more for them comes by way of b."""

    operation: str
    address: str = ""


class Redirect(Message, frozen=True):
    """b → client, close(ab): the last that b has for it. The client goes to `broker`, which listens at `address`."""

    broker: Node
    address: str = ""


class Farewell(Message, frozen=True):
    """client → b, close(ba): the last that the client sends to b."""


class Said(Message, frozen=True):
    """b → a: what a client still sent to b."""

    client: Node
    request: Attach | Detach | Publish | Subscribe | Unsubscribe | Advertise | Unadvertise


class ClientLeft(Message, frozen=True):
    """b → a, close(ba) for one client: nothing more of it comes by way of b."""

    operation: str
    client: Node


class Left(Message, frozen=True):
    """b → a: b has no clients any more, and is gone."""

    operation: str


OperatorRequest: TypeAlias = RequestSwap | RequestAdd | RequestRemove
ClientRequest: TypeAlias = Attach | Detach | Publish | Subscribe | Unsubscribe | Advertise | Unadvertise
ClientReply: TypeAlias = (
    Attached | Deliver | Published | PublishRefused | Subscribed | Unsubscribed | Advertised | Unadvertised | Refused
)
PubSub: TypeAlias = Forward | Install | Withdraw | Installed | Settle
SwapLinkMessage: TypeAlias = RequestSwap | Lock | LockAck | LockNack | Abort | Aborted | Swap | Open | Close
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
)
AnyMessage: TypeAlias = (
    ClientRequest | ClientReply | PubSub | Marked | SwapLinkMessage | MembershipMessage | Seek | Sought | Redirect
)


# The wire ------------------------------------------------------------------------------------------------------


def _to_wire(value: Any) -> Any:
    if isinstance(value, Filter):
        return value.text
    raise NotImplementedError(f"{type(value).__name__} does not travel")


def _from_wire(kind: type, value: Any) -> Any:
    return parse_internal(_text(kind, value))


def _from_client(kind: type, value: Any) -> Any:
    return parse_asked(_text(kind, value))


def _text(kind: type, value: Any) -> str:
    assert kind is Filter, f"{kind.__name__} does not travel"
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"Expected the text of a filter, got {type(value).__name__}")
    return value


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
_NOT_ASKED: Any = reduce(or_, (kind for kind in get_args(AnyMessage) if kind not in (Subscribe, Advertise)))
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(_NOT_ASKED, dec_hook=_from_wire)
_asked: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(Subscribe | Advertise, dec_hook=_from_client)

# How messages begin whose filters are a client's own; the other decoder does not know them, however they are written.
_ASKED = frozenset(_encoder.encode(kind.__name__) for kind in (Subscribe, Advertise))
_ASKED_AT = slice(1, 11)
assert {len(beginning) for beginning in _ASKED} == {10}

# How messages that are nothing but an event begin on the wire: one becomes another by a change of its beginning.
EVENT_PREFIXES: dict[type[Message], bytes] = {
    kind: b"\x92" + _encoder.encode(kind.__name__) for kind in (Publish, Forward, Deliver)
}

Plain = TypeVar("Plain")


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """The inverse of `encode`; raises msgspec.DecodeError, or FilterError, for what is no message."""
    try:
        return (_asked if data[_ASKED_AT] in _ASKED else _decoder).decode(data)
    except (UnicodeDecodeError, RecursionError) as error:  # what msgspec lets through as it is
        raise msgspec.DecodeError(f"not a message: {error}") from None


def pack(state: Any) -> bytes:
    """A captured state as bytes: the same codec, for states that hold messages and filters."""
    return _encoder.encode(state)


def unpack(data: bytes, kind: type[Plain]) -> Plain:
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_from_wire)
