"""Frames, the units of a connection, and their codec.

    ┌────────────┬────────┬──────────────┬─────────┐
    │ length u32 │ kind u8│ number u64   │ body    │    length counts everything after itself
    └────────────┴────────┴──────────────┴─────────┘

The length is checked against a limit before memory is allocated for the frame. `number` is the sequence of a DATA
frame, the highest sequence confirmed by an ACK, 1 in a STANDBY whose message goes on in the next one, and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from pleach.core.messages.base import NetworkAddress, Node
from pleach.errors import FrameError

FRAME_BYTES_MAX = 4 * 1_048_576  # the largest event and its envelope
PROTOCOL_VERSION = 5
PROBE_PATH_MAX = 1_000  # brokers
LOGIN_BYTES_MAX = 8_192  # of a token
FALLBACKS_MAX = 16  # addresses of other brokers
NETWORK_SETTINGS_MAX, NETWORK_SETTING_CHARACTERS_MAX = 16, 64

# Roles in a Hello, besides that of readers (reading.py).
BROKER, CLIENT = "broker", "client"
STANDBY = "standby"  # between machines that hold copies of brokers (server/standby/links.py)
ENQUIRY = "enquiry"  # of whoever only asks where the broker is that it wants; answered with ELSEWHERE, on any port
TUNNEL = "tunnel"  # of whoever wants its bytes passed on to the broker that it wants; answered with a Hello likewise

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
    LOGIN = 10
    CHALLENGE = 11
    STANDBY = 12


_DATA = int(FrameKind.DATA)  # hot path: without the look-up of an enum member


class ByeReason(IntEnum):
    """Why a side ends the connection."""

    LEAVING = 0  # a clean stop; the node will be back
    FENCED = 1  # a newer epoch or view of the receiver is known
    REFUSED = 2  # not accepted: name, version or permission
    BROKEN = 3  # frames are missing and cannot be sent again
    DONE = 4  # this side has closed the link; it ends once both have (upkeep.py)
    ELSEWHERE = 5  # the broker that is wanted is another one; `address`: where it is, or who may know, if known
    DENIED = 6  # the access file does not allow it: a retry needs other credentials or rights
    DIFFERENT = 7  # both are brokers, and their settings of the network differ: a retry needs others
    REPLACED = 8  # another broker of your name is known, with a memory that lasts: only an operator can replace it


class Memory(IntEnum):
    """What a broker's epoch stands for, and how it may end."""

    UNTOLD = 0  # by another release, or by a client
    PROCESS = 1  # in memory only: it ends with the process
    DIRECTORY = 2  # on disk: it ends only where the disk is lost
    REPLACEMENT = 3  # either, and an operator says that the former one of this name is lost


NUMBER_MAX = 2**63 - 1  # the largest integer of the database
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
FallbackAddresses: TypeAlias = Annotated[tuple[NetworkAddress, ...], msgspec.Meta(max_length=FALLBACKS_MAX)]
SettingText: TypeAlias = Annotated[str, msgspec.Meta(max_length=NETWORK_SETTING_CHARACTERS_MAX)]
SettingsTold: TypeAlias = Annotated[
    tuple[tuple[SettingText, SettingText], ...], msgspec.Meta(max_length=NETWORK_SETTINGS_MAX)
]


class LinkTerms(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a broker tells another one, on which it depends whether they link."""

    settings: SettingsTold = ()  # those that neighbours must agree on, and their values
    memory: Memory = Memory.UNTOLD


class SessionNumbers(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a session is, as one side says. `epoch` rises each time the sender has lost its state."""

    node: str
    epoch: Ordinal
    peer_epoch: Number  # the epoch of the receiver that `received` refers to; 0: none known
    received: Number  # the highest sequence received, without gaps
    first: Ordinal  # of the sender's outbox


class Hello(SessionNumbers, frozen=True, array_like=True, gc=False):
    """The first frame of each side."""

    version: int = PROTOCOL_VERSION
    role: str = BROKER
    admin: NetworkAddress = ""  # between brokers: the operators' address of the sender
    wants: str = ""  # of a client: the broker that it is attached to, if any
    awaits: Number = 0  # where `peer_epoch` is 0: the epoch of the receiver that the sender was referred to
    token: str = ""  # from a broker to a client: what readers of its session have to show; from a reader: that
    machine: Node = ""  # where the sender runs; another disk is another machine
    view: Number = 0  # of a broker that has standbys: the view whose primary it is; whoever met a newer one refuses it
    fallbacks: FallbackAddresses = ()  # from a broker to a client: where to ask for it when it is gone
    terms: LinkTerms = LinkTerms()  # between brokers
    relay: Node = ""  # from who dialled: the broker that passes this connection on; empty: nobody does


class Probe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Detects cycles: `path` has the brokers that it passed, its sender first. Not numbered, like Ping."""

    number: Ordinal
    path: Annotated[list[str], msgspec.Meta(min_length=1, max_length=PROBE_PATH_MAX)]


class Read(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A reader's request (reading.py) for the payloads of a session after a number, within limits."""

    after: Number
    upto: Number = 0  # 0: to the end
    messages_max: Number = 0  # of a survey; 0: no limit
    is_survey: bool = False  # only the extent is wanted, not the payloads


class Extent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The end of an answer to a reader: the last payload that was sent, or would be."""

    upto: Number
    first: Ordinal  # of the outbox
    last: Number  # of the outbox


class LoginKind(IntEnum):
    """What a client proves its identity by, where its certificate does not."""

    KEY = 1  # asks for a challenge; `proof`: the public key
    PROOF = 2  # answers it; `proof`: the signature
    TOKEN = 3  # `proof`: the token


class Login(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a client sends before its Hello to say who it is. `node`: the name that its Hello will have."""

    kind: LoginKind
    node: str
    proof: Annotated[bytes, msgspec.Meta(max_length=LOGIN_BYTES_MAX)]


class Challenge(NamedTuple):
    """A number used once, which a client signs with its key."""

    nonce: bytes


class Aside(NamedTuple):
    """A message between brokers outside of the session: neither numbered nor stored."""

    payload: bytes


class StandbyPart(NamedTuple):
    """A message between machines that hold copies of brokers, or a part of one: `has_more` until the last."""

    payload: bytes
    has_more: bool = False


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
    received: Number = 0  # of DONE: the highest sequence received by then
    address: NetworkAddress = ""  # of ELSEWHERE
    is_at_work: bool = False  # of FENCED: the newer one is connected to the sender; of ELSEWHERE: the broker is there
    view: Number = 0  # of FENCED: the newer view that is known; of ELSEWHERE: in which the broker is there
    epoch: Number = 0  # of FENCED: the newer epoch that is known, if it was that of a process in memory


Frame: TypeAlias = Hello | Data | Ack | Ping | Bye | Probe | Read | Extent | Aside | Login | Challenge | StandbyPart

# Frames whose body is a MessagePack array of their fields.
_DECODERS: dict[int, msgspec.msgpack.Decoder[Any]] = {
    FrameKind.HELLO: msgspec.msgpack.Decoder(Hello),
    FrameKind.BYE: msgspec.msgpack.Decoder(Bye),
    FrameKind.PROBE: msgspec.msgpack.Decoder(Probe),
    FrameKind.READ: msgspec.msgpack.Decoder(Read),
    FrameKind.EXTENT: msgspec.msgpack.Decoder(Extent),
    FrameKind.LOGIN: msgspec.msgpack.Decoder(Login),
}
_KINDS = {decoder.type: FrameKind(kind) for kind, decoder in _DECODERS.items()}


def encode_frame(frame: Frame) -> bytes:
    if isinstance(frame, Data):  # nearly all frames
        sequence, payload = frame
        return _pack(_HEAD_BYTES + len(payload), _DATA, sequence) + payload
    match frame:
        case Ack(upto):
            return _PREFIX.pack(_HEAD_BYTES, FrameKind.ACK, upto)
        case Ping():
            return _PREFIX.pack(_HEAD_BYTES, FrameKind.PING, 0)
        case Aside(payload):
            return _with_body(FrameKind.ASIDE, payload)
        case Challenge(nonce):
            return _with_body(FrameKind.CHALLENGE, nonce)
        case StandbyPart(payload, has_more):
            return _PREFIX.pack(_HEAD_BYTES + len(payload), FrameKind.STANDBY, int(has_more)) + payload
        case _:
            return _with_body(_KINDS[frame.__class__], msgspec.msgpack.encode(frame))


def _with_body(kind: FrameKind, body: bytes) -> bytes:
    return _PREFIX.pack(_HEAD_BYTES + len(body), kind, 0) + body


class FrameReader:
    """Splits a byte stream into frames. After a FrameError the stream cannot be resynchronised."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._rest = bytearray()  # an incomplete frame
        self._wanted = _PREFIX.size  # its length must reach this before it is parsed again
        self._refusal = ""  # the first error; raised again from then on

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now."""
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
        case FrameKind.ASIDE:
            return Aside(body)
        case FrameKind.CHALLENGE:
            return Challenge(body)
        case FrameKind.STANDBY if number in (0, 1):
            return StandbyPart(body, number == 1)
        case _ if kind in _DECODERS:
            return _decoded(_DECODERS[kind], body)
        case _:
            raise FrameError(f"no frame has kind {kind}, number {number} and {len(body)} bytes")


def _decoded(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Frame:
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"malformed {decoder.type.__name__} frame: {error}") from None
