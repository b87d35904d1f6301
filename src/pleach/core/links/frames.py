"""What travels on a connection: frames, and their codec.

    ┌────────────┬────────┬──────────────┬─────────┐
    │ length u32 │ kind u8│ number u64   │ body    │    length counts everything after itself
    └────────────┴────────┴──────────────┴─────────┘

The length is checked against a limit before any memory is taken for the frame. `number` is the sequence of a DATA
frame, the highest sequence confirmed by an ACK, and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import msgspec

from pleach.errors import FrameError

FRAME_BYTES_MAX = 4 * 1_048_576  # larger than the largest event, with room for its envelope
PROTOCOL_VERSION = 3
PROBE_PATH_MAX = 1_000  # brokers in a row

# Roles in a Hello, besides that of readers (reading.py).
BROKER, CLIENT = "broker", "client"
GUARDED = "guarded"  # a broker that gets a stand-in should it die: its clients remember what they need then
STAND_IN = "stand-in"  # one that stands in for a broker that is dead for good, and does not know yet what that one knew

_PREFIX = Struct(">IBQ")
_HEAD_BYTES = _PREFIX.size - 4  # of `length`: kind and number
_LENGTH = Struct(">I")
_pack = _PREFIX.pack


class FrameKind(IntEnum):
    HELLO = 1
    DATA = 2
    ACK = 3
    PING = 4
    BYE = 5
    PROBE = 6
    READ = 7
    EXTENT = 8
    ASIDE = 9


_DATA = int(FrameKind.DATA)  # for the hot paths: an enum's member is looked up each time


class ByeReason(IntEnum):
    """Why one side ends the conversation."""

    LEAVING = 0  # a clean stop; come back later
    FENCED = 1  # a newer epoch of yours is known here
    REFUSED = 2  # this node does not talk to you (name, version, permission)
    BROKEN = 3  # frames are missing that cannot be had again
    DONE = 4  # this link is given up here, and all of it is confirmed; once you are done, too, it ends (upkeep.py)
    ELSEWHERE = 5  # the broker that you want is another one; `address` says where it stands, if that is known


NUMBER_MAX = 2**63 - 1  # what a disk keeps as an integer
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first frame of each side. `epoch` counts the lives of the sender without memory of the life before."""

    node: str
    epoch: Ordinal
    peer_epoch: Number  # the life of the receiver that `received` speaks of; 0: none known
    received: Number  # all up to this sequence are here
    first: Ordinal  # the first sequence that the sender still has
    version: int = PROTOCOL_VERSION
    role: str = BROKER
    admin: str = ""  # between brokers: where operators find the sender
    wants: str = ""  # of a client: the broker whose client it is, if it is anybody's
    awaits: Number = 0  # where `peer_epoch` is 0: the life of the receiver that the sender was sent to, if it was


class Probe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Looks for cycles: the brokers that it has passed, its sender first. Outside of the session, like Ping."""

    number: Ordinal
    path: Annotated[list[str], msgspec.Meta(min_length=1, max_length=PROBE_PATH_MAX)]


class Read(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A reader asks for what a session has (reading.py): all payloads after one number, as far as the limits go."""

    after: Number
    upto: Number = 0  # 0: as far as there are any
    messages_max: Number = 0  # of a survey; 0: no limit
    is_survey: bool = False  # how far that goes is wanted, and not the payloads


class Extent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to a reader: how far the payloads go that came before it, or would come."""

    upto: Number
    first: Ordinal  # the first that the session still has, and
    last: Number  # the last


class Aside(NamedTuple):
    """A message between brokers outside of the session, like Probe: neither numbered nor kept."""

    payload: bytes


class Data(NamedTuple):
    sequence: int
    payload: bytes


class Ack(NamedTuple):
    upto: int


class Ping(NamedTuple):
    pass


class Bye(msgspec.Struct, frozen=True, array_like=True, gc=False):
    why: ByeReason
    reason: str
    received: Number = 0  # of DONE: said knowing all up to this sequence
    address: str = ""  # of ELSEWHERE


Frame: TypeAlias = Hello | Data | Ack | Ping | Bye | Probe | Read | Extent | Aside

_hello = msgspec.msgpack.Decoder(Hello)
_bye = msgspec.msgpack.Decoder(Bye)
_probe = msgspec.msgpack.Decoder(Probe)
_read = msgspec.msgpack.Decoder(Read)
_extent = msgspec.msgpack.Decoder(Extent)


def encode_frame(frame: Frame) -> bytes:
    if isinstance(frame, Data):  # nearly all of them
        sequence, payload = frame
        return _pack(_HEAD_BYTES + len(payload), _DATA, sequence) + payload
    match frame:
        case Ack(upto):
            return _PREFIX.pack(_HEAD_BYTES, FrameKind.ACK, upto)
        case Ping():
            return _PREFIX.pack(_HEAD_BYTES, FrameKind.PING, 0)
        case Hello():
            return _with_body(FrameKind.HELLO, msgspec.msgpack.encode(frame))
        case Bye():
            return _with_body(FrameKind.BYE, msgspec.msgpack.encode(frame))
        case Probe():
            return _with_body(FrameKind.PROBE, msgspec.msgpack.encode(frame))
        case Read():
            return _with_body(FrameKind.READ, msgspec.msgpack.encode(frame))
        case Extent():
            return _with_body(FrameKind.EXTENT, msgspec.msgpack.encode(frame))
        case Aside(payload):
            return _with_body(FrameKind.ASIDE, payload)


def _with_body(kind: FrameKind, body: bytes) -> bytes:
    return _PREFIX.pack(_HEAD_BYTES + len(body), kind, 0) + body


Whole = TypeVar("Whole", Hello, Bye, Probe, Read, Extent)


class FrameReader:
    """Cuts a stream of bytes into frames. Raises FrameError at what is none; the stream is useless from there on."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._rest = bytearray()  # the beginning of a frame
        self._wanted = _PREFIX.size  # how long it must be for another look: bytes that trickle in are not copied again
        self._refusal = ""  # why nothing is read any more

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now. Once it has raised, it raises again: what follows is out of step."""
        if self._refusal:
            raise FrameError(self._refusal)
        try:
            yield from self._cut(data)
        except FrameError as error:
            self._refusal = str(error)
            self._rest.clear()
            raise

    def _cut(self, data: bytes) -> Iterator[Frame]:
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data = bytes(self._rest)
            self._rest.clear()
        position, size, unpack, prefix = 0, len(data), _PREFIX.unpack_from, _PREFIX.size
        try:
            while size - position >= prefix:
                length, kind, number = unpack(data, position)
                if not _HEAD_BYTES <= length <= self._max:
                    raise FrameError(f"a frame of {length:,} bytes; {_HEAD_BYTES} to {self._max:,} are allowed")
                end = position + 4 + length
                if size < end:
                    break
                body = data[position + prefix : end]
                position = end
                yield Data(number, body) if kind == _DATA and number > 0 else _decode(kind, number, body)
        finally:
            self._keep(data, position)

    def _keep(self, data: bytes, position: int) -> None:
        self._rest += data[position:]
        if len(self._rest) >= _PREFIX.size:
            (length,) = _LENGTH.unpack_from(self._rest)
            self._wanted = 4 + length
        else:
            self._wanted = _PREFIX.size


def _decode(kind: int, number: int, body: bytes) -> Frame:
    match kind:
        case FrameKind.DATA if number > 0:
            return Data(number, body)
        case FrameKind.ACK if not body:
            return Ack(number)
        case FrameKind.PING if not body:
            return Ping()
        case FrameKind.HELLO:
            return _decoded(_hello, body)
        case FrameKind.BYE:
            return _decoded(_bye, body)
        case FrameKind.PROBE:
            return _decoded(_probe, body)
        case FrameKind.READ:
            return _decoded(_read, body)
        case FrameKind.EXTENT:
            return _decoded(_extent, body)
        case FrameKind.ASIDE:
            return Aside(body)
        case _:
            raise FrameError(f"no frame has kind {kind}, number {number} and {len(body)} bytes")


def _decoded(decoder: msgspec.msgpack.Decoder[Whole], body: bytes) -> Whole:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a {decoder.type.__name__} frame that does not parse: {error}") from None
