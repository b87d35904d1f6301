"""Runs: events that follow each other on a link, as one payload.

    ┌──────┬────────┬──────┬───────────┬───────┬───────┬───
    │ 0xC1 │ kind u8│ 0xDC │ count u16 │ event │ event │ …       from 0xDC on: a MessagePack array
    └──────┴────────┴──────┴───────────┴───────┴───────┴───

A run stands for as many messages, in order, and means what they mean. 0xC1 begins no MessagePack value, and so no
message: the first byte of a payload says which it is. A run of one event travels as the message itself.

Rule 1: a broker that forwards a run decodes the ids and, where it has not seen them before, the attributes; it sends
        the events on in the bytes that they came in.
Rule 2: what a neighbour sends is validated before it is sent on: ids by `glimpses`, attributes and sizes by whoever
        asks for those (run_forwarding.py), or all of it by `messages`. A client's `Publish` is validated where
        it is answered.
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from pleach.core.events.event import INTEGER_MAX, PUBLISHER_BYTES_MAX, WITHHELD, Event, checked
from pleach.core.messages import EVENT_PREFIXES, Deliver, Forward, Message, Node, Publish, decode

RUN_EVENTS_MAX = 256  # bounds how long other links wait while a run is handled
RUN_BYTES_MAX = 65_536  # of its events; a larger event travels alone, so that no frame becomes too large

EventKind: TypeAlias = type[Publish] | type[Forward] | type[Deliver]

_MARK = b"\xc1"
_ARRAY = 0xDC
_HEAD = Struct(">BBBH")
_COUNT_AT = slice(3, 5)
_KINDS: dict[int, EventKind] = {1: Publish, 2: Forward, 3: Deliver}
_CODES: dict[EventKind, int] = {kind: code for code, kind in _KINDS.items()}


class Glimpse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a broker decodes of an event that it only forwards."""

    id: tuple[str, int, int]
    attributes: msgspec.Raw
    payload: bytes = b""


class _ValidGlimpse(Glimpse, frozen=True):
    """With an id that is valid, and a name so short that its bytes need not be counted."""

    id: tuple[
        Annotated[str, msgspec.Meta(min_length=1, max_length=PUBLISHER_BYTES_MAX // 4)],
        Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)],
        Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)],
    ]


_glimpses = msgspec.msgpack.Decoder(list[Glimpse])
_valid_glimpses: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[_ValidGlimpse])
_events = msgspec.msgpack.Decoder(list[Event])
_pieces = msgspec.msgpack.Decoder(list[msgspec.Raw])
_encode_event = msgspec.msgpack.Encoder().encode


class Run:
    """A payload of several events, decoded as far as it is asked for."""

    __slots__ = ("_array", "_pieces", "_rest", "count", "kind")

    def __init__(self, payload: bytes) -> None:
        """Raises msgspec.DecodeError where the head is not that of a run."""
        if not _HEAD.size < len(payload) <= _HEAD.size + RUN_BYTES_MAX:
            raise msgspec.DecodeError(f"a run of {len(payload):,} bytes")
        _, code, array, self.count = _HEAD.unpack_from(payload)
        if code not in _KINDS or array != _ARRAY or not 0 < self.count <= RUN_EVENTS_MAX:
            raise msgspec.DecodeError(f"a run of kind {code} and {self.count} events; 1 to {RUN_EVENTS_MAX} may be")
        self.kind = _KINDS[code]
        self._array = memoryview(payload)[2:]
        self._rest = payload[_HEAD.size :]
        self._pieces: list[msgspec.Raw] | None = None

    @property
    def size(self) -> int:
        """Of its events, in bytes."""
        return len(self._rest)

    def glimpses(self) -> list[Glimpse]:
        """Raises msgspec.DecodeError or EventError where a neighbour's events have no valid ids."""
        if self.kind is not Forward:
            return _glimpses.decode(self._array)
        try:
            return _valid_glimpses.decode(self._array)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            self.messages()  # raises, unless a publisher's name is just unusually long
            return _glimpses.decode(self._array)

    def events(self) -> list[Event]:
        """Not validated: for a client, whose broker has done that."""
        return _events.decode(self._array)

    def messages(self) -> list[Message]:
        """What the run stands for, validated as by `decode`."""
        events = self.events()
        if self.kind is not Publish:
            for event in events:
                if self.kind is not Deliver or event != WITHHELD:
                    checked(event)
        return [self.kind(event) for event in events]

    def bytes_of(self, start: int, end: int) -> bytes:
        """Some of the events, encoded, one behind the other."""
        if end - start == self.count:
            return self._rest
        if self._pieces is None:
            self._pieces = _pieces.decode(self._array)
        return b"".join(map(bytes, self._pieces[start:end]))


class Span(NamedTuple):
    """Events of a run, from `start` up to `end` (exclusive), that go to the same receivers."""

    start: int
    end: int
    neighbours: tuple[Node, ...]  # get them as Forward
    clients: tuple[Node, ...]  # as Deliver


def is_run(payload: bytes) -> bool:
    return payload[:1] == _MARK


def encode_event(event: Event) -> bytes:
    return _encode_event(event)


def encode_run(kind: EventKind, count: int, events: bytes) -> bytes:
    """The payload for events that are already encoded, one behind the other."""
    if count == 1:
        return EVENT_PREFIXES[kind] + events
    return _HEAD.pack(_MARK[0], _CODES[kind], _ARRAY, count) + events


def messages_in(payload: bytes) -> int:
    """How many messages a payload stands for that this process has made."""
    return int.from_bytes(payload[_COUNT_AT]) if payload[:1] == _MARK else 1


def decode_all(payload: bytes) -> list[Message]:
    """The messages of a payload; raises as `decode` does."""
    return Run(payload).messages() if is_run(payload) else [decode(payload)]
