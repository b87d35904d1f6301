"""The wire: all messages, and the one codec that there is."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec

from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_asked, parse_internal
from pleach.core.messages.base import Message
from pleach.core.messages.clients import Advertise, ClientReply, ClientRequest, Deliver, Publish, Subscribe
from pleach.core.messages.coloured import ColouredMessage
from pleach.core.messages.council import CouncilMessage
from pleach.core.messages.exchange import ExchangeMessage
from pleach.core.messages.healing import HealingMessage, Returning
from pleach.core.messages.hosting import HostingRequest
from pleach.core.messages.membership import MembershipMessage, Redirect
from pleach.core.messages.movement import Halt, MovementMessage, Resume
from pleach.core.messages.neighbours import FallbackBrokers, NeighbourReport
from pleach.core.messages.rebuild import PaceMessage, RebuildMessage
from pleach.core.messages.requests import Presence, Seek, Sought
from pleach.core.messages.ring import DoorMessage, RingMessage
from pleach.core.messages.routing import Forward, Marked, PubSub
from pleach.core.messages.swaplink import SwapLinkMessage

AnyMessage: TypeAlias = (
    ClientRequest
    | ClientReply
    | PubSub
    | Marked
    | SwapLinkMessage
    | ExchangeMessage
    | MembershipMessage
    | RingMessage
    | DoorMessage
    | MovementMessage
    | Halt
    | Resume
    | RebuildMessage
    | PaceMessage
    | HealingMessage
    | NeighbourReport
    | FallbackBrokers
    | HostingRequest
    | Seek
    | Sought
    | Presence
    | Redirect
    | ColouredMessage
    | CouncilMessage
)


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


ASKED: tuple[type[Message], ...] = (Subscribe, Advertise, Returning)

_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
_NOT_ASKED: Any = reduce(or_, (kind for kind in get_args(AnyMessage) if kind not in ASKED))
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(_NOT_ASKED, dec_hook=_from_wire)
_asked: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(reduce(or_, ASKED), dec_hook=_from_client)

# How messages begin whose filters are a client's own; the other decoder does not know them, however they are written.
_ASKED = frozenset(_encoder.encode(kind.__name__) for kind in ASKED)
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
