"""Runs: events that follow each other on a link, as one payload.

    ┌──────┬────────┬──────┬───────────┬───────┬───────┬───
    │ 0xC1 │ kind u8│ 0xDC │ count u16 │ event │ event │ …       from 0xDC on: a MessagePack array
    └──────┴────────┴──────┴───────────┴───────┴───────┴───

A run stands for as many messages, in order, and means what they mean. 0xC1 begins no MessagePack value, and so no
message: a payload tells by its first byte which it is. A broker that only passes a run on reads its ids and, for new
ones, its attributes; the rest goes on in the bytes that it came in. A run of one travels as the message itself.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.messages import EVENT_PREFIXES, Deliver, Forward, Message, Node, Publish, decode

RUN_EVENTS_MAX = 256  # what a run takes at a stretch; other links wait for no more than this
RUN_BYTES_MAX = 65_536  # of its events; what is larger travels alone, and no joining makes a frame too large

EventKind: TypeAlias = type[Publish] | type[Forward] | type[Deliver]

_MARK = b"\xc1"
_ARRAY = 0xDC
_HEAD = Struct(">BBBH")
_COUNT_AT = slice(3, 5)
_KINDS: dict[int, EventKind] = {1: Publish, 2: Forward, 3: Deliver}
_CODES: dict[EventKind, int] = {kind: code for code, kind in _KINDS.items()}


class Glimpse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a broker sees of an event that only passes through."""

    id: tuple[str, int, int]
    attributes: msgspec.Raw
    payload: bytes = b""


_glimpses = msgspec.msgpack.Decoder(list[Glimpse])
_events = msgspec.msgpack.Decoder(list[Event])
_pieces = msgspec.msgpack.Decoder(list[msgspec.Raw])
_encode_event = msgspec.msgpack.Encoder().encode


class Run:
    """A payload of several events, read as far as somebody asks for it."""

    __slots__ = ("_array", "_pieces", "_rest", "count", "kind")

    def __init__(self, payload: bytes) -> None:
        """Raises msgspec.DecodeError where the beginning is that of no run."""
        if not _HEAD.size < len(payload) <= _HEAD.size + RUN_BYTES_MAX:
            raise msgspec.DecodeError(f"a run of {len(payload):,} bytes")
        _, code, array, self.count = _HEAD.unpack_from(payload)
        if code not in _KINDS or array != _ARRAY or not 0 < self.count <= RUN_EVENTS_MAX:
            raise msgspec.DecodeError(f"a run of kind {code} and {self.count} events; 1 to {RUN_EVENTS_MAX} may be")
        self.kind = _KINDS[code]
        self._array = memoryview(payload)[2:]
        self._rest = payload[_HEAD.size :]
        self._pieces: list[msgspec.Raw] | None = None

    def glimpses(self) -> list[Glimpse]:
        return _glimpses.decode(self._array)

    def events(self) -> list[Event]:
        return _events.decode(self._array)

    def messages(self) -> list[Message]:
        """What the run stands for."""
        return [self.kind(event) for event in self.events()]

    def bytes_of(self, start: int, end: int) -> bytes:
        """Some of the events, back to back."""
        if end - start == self.count:
            return self._rest
        if self._pieces is None:
            self._pieces = _pieces.decode(self._array)
        return b"".join(map(bytes, self._pieces[start:end]))


class Span(NamedTuple):
    """Events of a run, from `start` up to `end`, that go to the same receivers."""

    start: int
    end: int
    neighbours: tuple[Node, ...]  # get them as Forward
    clients: tuple[Node, ...]  # as Deliver


def is_run(payload: bytes) -> bool:
    return payload[:1] == _MARK


def encode_event(event: Event) -> bytes:
    return _encode_event(event)


def encode_run(kind: EventKind, count: int, events: bytes) -> bytes:
    """The payload for events that are encoded already, back to back."""
    if count == 1:
        return EVENT_PREFIXES[kind] + events
    return _HEAD.pack(_MARK[0], _CODES[kind], _ARRAY, count) + events


def messages_in(payload: bytes) -> int:
    """How many messages a payload of our own stands for."""
    return int.from_bytes(payload[_COUNT_AT]) if payload[:1] == _MARK else 1


def decode_all(payload: bytes) -> list[Message]:
    """The messages of a payload; raises msgspec.DecodeError for what is none."""
    return Run(payload).messages() if is_run(payload) else [decode(payload)]
