"""Every message that travels between clients and brokers, and between brokers, in one place.

    client ── Attach, Publish, Subscribe, … ──▶ broker ── Forward, Install, Withdraw ──▶ broker
    client ◀── Attached, Published, Deliver, … ─ broker ◀── Installed ─────────────────── broker

A message is a frozen value. On the wire it is MessagePack with its type's name as a tag; a filter travels as its
canonical text. `encode` is the only codec there is: what the simulator counts as bytes is what a socket carries.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from pleach.events.event import Event, EventId
from pleach.events.filter import Filter
from pleach.events.language import parse_internal

CONFIRMED_TOGETHER_MAX = 1_024  # events that one message confirms

Node: TypeAlias = str  # the name of a broker or a client; one name space for both


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


class Marked(Message, frozen=True):
    """A pub/sub message that carries a mark of a reconfiguration (S0 §IV-A: the `flood` header, the relay flag)."""

    mark: str
    message: Forward | Install | Withdraw | Installed


ClientRequest: TypeAlias = Attach | Detach | Publish | Subscribe | Unsubscribe | Advertise | Unadvertise
ClientReply: TypeAlias = (
    Attached | Deliver | Published | PublishRefused | Subscribed | Unsubscribed | Advertised | Unadvertised | Refused
)
PubSub: TypeAlias = Forward | Install | Withdraw | Installed
AnyMessage: TypeAlias = ClientRequest | ClientReply | PubSub | Marked


# The wire ------------------------------------------------------------------------------------------------------


def _to_wire(value: Any) -> Any:
    if isinstance(value, Filter):
        return value.text
    raise NotImplementedError(f"{type(value).__name__} does not travel")


def _from_wire(kind: type, value: Any) -> Any:
    if kind is Filter:
        return parse_internal(value)
    raise NotImplementedError(f"{kind.__name__} does not travel")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage, dec_hook=_from_wire)

# How messages that are nothing but an event begin on the wire: one becomes another by a change of its beginning.
EVENT_PREFIXES: dict[type[Message], bytes] = {
    kind: b"\x92" + _encoder.encode(kind.__name__) for kind in (Publish, Forward, Deliver)
}

Plain = TypeVar("Plain")


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """The inverse of `encode`; raises msgspec.DecodeError for what is no message."""
    return _decoder.decode(data)


def pack(state: Any) -> bytes:
    """A captured state as bytes: the same codec, for states that hold messages and filters."""
    return _encoder.encode(state)


def unpack(data: bytes, kind: type[Plain]) -> Plain:
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_from_wire)
