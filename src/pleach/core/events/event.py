"""Events: an id, typed attributes, an opaque payload.

The id `(publisher, incarnation, sequence)` is unique in the network: a publisher counts its events from 1
within an incarnation, and takes a higher incarnation when it has lost count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pleach.errors import EventError

Value: TypeAlias = str | int | float | bool | bytes

PUBLISHER_BYTES_MAX = 4096
ATTRIBUTES_MAX = 256
ATTRIBUTE_NAME_BYTES_MAX = 256
EVENT_BYTES_MAX = 1_048_576
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1

_EVENT_ID = re.compile(r"(.+)/([0-9]{1,19})/([0-9]{1,19})", re.DOTALL)


class EventId(NamedTuple):
    publisher: str
    incarnation: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}/{self.incarnation}/{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> EventId:
        """The inverse of `str`. A publisher's name may itself contain slashes."""
        match = _EVENT_ID.fullmatch(text)
        if match is None:
            raise EventError(f"{text!r} is not an event id: publisher/incarnation/sequence is wanted")
        return cls(match[1], int(match[2]), int(match[3]))


class Event(msgspec.Struct, frozen=True, array_like=True):
    id: EventId
    attributes: dict[str, Any]  # of Value: msgspec cannot express str | bytes; `checked` verifies it
    payload: bytes = b""


# What a client gets in the place of an event that was queued for it, and that it may not see any more: the number of
# messages in a payload stays the same. No event has such an id.
WITHHELD = Event(EventId("", 0, 0), {})


def checked(event: Event) -> Event:
    """The event itself, if it may be published; raises EventError otherwise."""
    check_id(event.id)
    check_content(event.attributes, event.payload)
    return event


def check_content(attributes: Mapping[str, Any], payload: bytes) -> None:
    size = check_attributes(attributes)
    if not isinstance(payload, bytes):
        raise EventError(f"the payload is {type(payload).__name__}; bytes are wanted")
    size += len(payload)
    if size > EVENT_BYTES_MAX:
        raise EventError(f"an event of {size:,} bytes; at most {EVENT_BYTES_MAX:,} are allowed")


def check_attributes(attributes: Mapping[str, Any]) -> int:
    """Returns their size, with one byte per character: a lower bound of the encoded size."""
    if len(attributes) > ATTRIBUTES_MAX:
        raise EventError(f"{len(attributes)} attributes; at most {ATTRIBUTES_MAX} are allowed")
    size = 0
    for name, value in attributes.items():
        # Fast path for the usual types.
        if not (name.__class__ is str and name.isascii() and 0 < len(name) <= ATTRIBUTE_NAME_BYTES_MAX):
            _check_name(name)
        kind = value.__class__
        if kind is str and value.isascii():
            size += len(name) + len(value)
        elif (
            (kind is int and INTEGER_MIN <= value <= INTEGER_MAX) or (kind is float and isfinite(value)) or kind is bool
        ):
            size += len(name) + 8
        else:
            _check_value(name, value)
            size += len(name) + _size(value)
    return size


def check_id(event_id: EventId) -> None:
    publisher, incarnation, sequence = event_id
    if not publisher or not 0 <= incarnation <= INTEGER_MAX or not 1 <= sequence <= INTEGER_MAX:
        raise EventError(f"event id {event_id}: the publisher needs a name, 64-bit sequences count from 1")
    if publisher.isascii() and len(publisher) <= PUBLISHER_BYTES_MAX:
        return
    try:
        size = len(publisher.encode())
    except UnicodeEncodeError:
        raise EventError("the publisher's name is not valid Unicode (a lone surrogate)") from None
    if size > PUBLISHER_BYTES_MAX:
        raise EventError(f"publisher {publisher[:20]!r}… has {size:,} bytes; {PUBLISHER_BYTES_MAX:,} are allowed")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise EventError(f"attribute name {name!r}: a non-empty string is wanted")
    if len(_utf8(name, name)) > ATTRIBUTE_NAME_BYTES_MAX:
        raise EventError(f"attribute name {name[:20]!r}… is longer than {ATTRIBUTE_NAME_BYTES_MAX} bytes")


def _check_value(name: str, value: object) -> None:
    match value:
        case bool() | bytes():
            pass
        case str():
            _utf8(name, value)
        case int():
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise EventError(f"attribute {name!r}: {value} does not fit 64 bits; send it as a string or float")
        case float():
            if not isfinite(value):
                raise EventError(f"attribute {name!r} is {value}: a finite number is wanted; leave it out instead")
        case _:
            kind = type(value).__name__
            raise EventError(f"attribute {name!r} is of type {kind}: str, int, float, bool or bytes is wanted")


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise EventError(f"attribute {name!r}: the text is not valid Unicode (a lone surrogate)") from None


def _size(value: Value) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 8
