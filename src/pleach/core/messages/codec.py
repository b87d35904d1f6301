"""The union of all messages, and the codec that sockets, disks and the simulator share."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec

from pleach.core.events.event import WITHHELD, checked
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_asked, parse_internal
from pleach.core.messages.access import AccessMessage
from pleach.core.messages.base import Message, wire_tag
from pleach.core.messages.clients import Advertise, ClientReply, ClientRequest, Deliver, Publish, Subscribe
from pleach.core.messages.coloured import ColouredMessage
from pleach.core.messages.council import CouncilMessage
from pleach.core.messages.exchange import ExchangeMessage
from pleach.core.messages.hosting import HostingRequest
from pleach.core.messages.locations import FallbackBrokers, LocationReport
from pleach.core.messages.membership import MembershipMessage, Redirect
from pleach.core.messages.movement import Halt, MovementMessage, Resume
from pleach.core.messages.rebuild import PaceMessage, RebuildMessage
from pleach.core.messages.requests import Presence, RequestAbandon, Seek, Sought
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
    | FallbackBrokers
    | LocationReport
    | HostingRequest
    | RequestAbandon
    | Seek
    | Sought
    | Presence
    | Redirect
    | ColouredMessage
    | CouncilMessage
    | AccessMessage
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


# Messages whose filters a client has written. Only the client decoder knows their tags, and it knows no others: such a
# tag in a longer encoding than the one byte that `decode` looks at comes to the other decoder, and is refused.
_CLIENT_FILTERS: tuple[type[Message], ...] = (Subscribe, Advertise)
_CLIENT_TAGS = frozenset(bytes([wire_tag(kind)]) for kind in _CLIENT_FILTERS)
_TAG_AT = slice(1, 2)  # behind the head of an array of at most 15 fields

_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
_others: Any = reduce(or_, (kind for kind in get_args(AnyMessage) if kind not in _CLIENT_FILTERS))
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(_others, dec_hook=_from_wire)
_client_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(
    reduce(or_, _CLIENT_FILTERS), dec_hook=_from_client
)

# Messages that are nothing but an event are these two bytes and the event: one becomes another by a change of them.
EVENT_PREFIXES: dict[type[Message], bytes] = {
    kind: bytes([0x92, wire_tag(kind)]) for kind in (Publish, Forward, Deliver)
}

# Messages that carry events which `decode` validates.
_VALIDATED = frozenset(kind for kind in get_args(AnyMessage) if kind.events is not Message.events) - {Publish}

Plain = TypeVar("Plain")


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """The inverse of `encode`, for what a peer sends; raises msgspec.DecodeError, FilterError or EventError.

    The events of the result are valid, but for that of a `Publish`: the broker answers it by `PublishRefused`.
    """
    try:
        message = (_client_decoder if data[_TAG_AT] in _CLIENT_TAGS else _decoder).decode(data)
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec does not convert these
        raise msgspec.DecodeError(f"not a message: {error}") from None
    if message.__class__ in _VALIDATED:
        for event in message.events:
            if message.__class__ is not Deliver or event != WITHHELD:
                checked(event)
    return message


def pack(state: Any) -> bytes:
    """Encodes a captured state, which may hold messages and filters."""
    return _encoder.encode(state)


def unpack(data: bytes, kind: type[Plain]) -> Plain:
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_from_wire)
