"""Random hostile sessions: a port, a Hello of any role and name, then frames and messages of every type, and bytes.

Instances of every message are made from the types of its fields: mostly values that some broker could send, so that
they get beyond the decoder, and among them the largest and smallest numbers, names of others and of nobody, and what no
type allows. What a broker answers is looked through for names of operations, and for epochs, which are then said to it.
"""

from __future__ import annotations

import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import (
    Ack,
    Aside,
    Bye,
    ByeReason,
    Challenge,
    Data,
    Extent,
    Frame,
    FrameReader,
    Hello,
    Login,
    Ping,
    Probe,
    Read,
    encode_frame,
)
from pleach.core.messages import (
    AnyMessage,
    Attach,
    Begin,
    Close,
    Deliver,
    Forward,
    HandedClient,
    Handover,
    Left,
    Lock,
    LockCycle,
    Message,
    MoveAbort,
    MoveCommit,
    MoveState,
    Negotiate,
    Publish,
    RemoveReq,
    Said,
    Subscribe,
    Swap,
    encode,
    pack,
)
from pleach.core.messages import base as message_base
from pleach.core.messages.base import NetworkAddress
from pleach.core.messages.council import Amount, BrokerOnPath, Bulletin, Motion
from pleach.core.messages.ring import DoorMessage, RingMessage
from pleach.core.messages.runs import decode_all, encode_event, encode_run
from pleach.core.messages.swaplink import TableEntries
from pleach.core.overlay.registry import CYCLES
from pleach.errors import FrameError, PleachError
from support.links.fuzz_frames import mutated

KINDS: tuple[type[Message], ...] = get_args(AnyMessage)
RING_KINDS: tuple[type[Message], ...] = (*get_args(RingMessage), *get_args(DoorMessage))
CLIENT_KINDS = tuple(kind for kind in KINDS if kind.__module__.endswith((".clients", ".movement")))
FRAMES: tuple[type[Any], ...] = (Ack, Aside, Bye, Challenge, Extent, Hello, Login, Ping, Probe, Read)
ROLES = ("client", "broker", "standby", "reader", "meter", "operator", "", "x" * 300)
NUMBERS = (0, 1, 1, 2, 3, 5, 1_000, 2**31, 2**32, 2**62, 2**63 - 1)
BEYOND = (-1, -(2**63), 2**63, 2**64 - 1)
FILTERS = tuple(
    parse_filter(text)
    for text in (
        "TRUE",
        "FALSE",
        "n >= 0",
        "n BETWEEN 1 AND 5 OR s LIKE '%abc%'",
        "NOT EXISTS s AND b = X'00ff'",
        "s IN ('a', 'b', '') AND n <> 3 AND flag = TRUE",
        "honest = FALSE",
        "pleachtenant = 'x' AND n = 1",
        "s LIKE '%a%' AND NOT s LIKE '%b%'",
        " OR ".join(f"(n = {n} AND s = 'v{n}')" for n in range(12)),
    )
)
TEXTS = ("", "s", "t", "sum", "swaplink", "x" * 255, "x" * 3_000, "\u200b", "a\nb", "ü" * 200, "..", "/", "%", "'")
ADDRESSES = ("", "127.0.0.1:9", "[::1]:9", "127.0.0.1:99999", "0.0.0.0:0", "nowhere.invalid:7200", "127.0.0.1:0")
PROTOCOLS = (*CYCLES, "swaplink", "")
DEPTH_MAX = 4


@dataclass
class Vocabulary:
    """Names that hostile sessions use. `neighbours`: those that the broker expects; `own`: of hostile clients."""

    broker: str
    neighbours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # honest clients, components, brokers further off
    own: tuple[str, ...] = ("hostile-1", "hostile-2", "hostile-3", "tenant/hostile")
    forbidden: tuple[str, ...] = ()  # nobody says Hello under these: without a log-in it would be believed
    operations: list[str] = field(default_factory=lambda: ["1", "op"])
    epochs: list[int] = field(default_factory=lambda: [1])

    @property
    def names(self) -> tuple[str, ...]:
        return (self.broker, *self.neighbours, *self.neighbours, *self.others, *self.own)


ODD_NAMES = ("", "x" * 255, "x" * 300, "a\x00b", "a\nb", "tenant/name", "/", "\u200b", "ü" * 255, "*")


class Sender:
    """Where a name stands in its session with a broker: so that it can go on, and is not always a new one."""

    def __init__(self) -> None:
        self.epoch = 0
        self.number = 0


class Generator:
    """One stream of random values; equal seeds make equal streams, as long as the answers are equal."""

    def __init__(
        self,
        rng: Random,
        words: Vocabulary,
        *,
        is_neighbour: bool = True,
        owned: tuple[type[Message], ...] = KINDS,
    ) -> None:
        """`is_neighbour`: whether it may come in under the name of a neighbour that the broker expects.

        `owned`: kinds of messages that the broker may know what to do with; the others come less often.
        """
        self._owned = owned
        self._memory: dict[str, list[Any]] = {}  # values of fields that the broker has sent, by the field's name
        self.rng = rng
        self.words = words
        self._is_neighbour = is_neighbour
        self._senders: dict[tuple[str, str], Sender] = {}
        self._epoch = time.time_ns() - 10**15
        self._last: tuple[str, str, Sender] | None = None  # role, name: who speaks in this session

    # Values ------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        rng = self.rng
        return rng.choice(ODD_NAMES) if rng.random() < 0.06 else rng.choice(self.words.names)

    def number(self) -> int:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.02:
            return rng.choice(BEYOND)
        return rng.choice(self.words.epochs) if draw < 0.15 else rng.choice(NUMBERS)

    def text(self, field_name: str = "") -> str:
        rng = self.rng
        if field_name in ("operation", "ticket"):
            return rng.choice(self.words.operations) if rng.random() < 0.95 else rng.choice(TEXTS)
        if field_name in ("parent", "client", "component", "beyond", "publisher"):
            return self.name()
        return rng.choice(TEXTS[:5]) if rng.random() < 0.85 else rng.choice(TEXTS)

    def attributes(self) -> dict[str, Any]:
        rng = self.rng
        values: tuple[Any, ...] = (0, 1, 3, 2**63 - 1, 1.5, "", "a", "v1", b"\x00", True, "x" * 1_000)
        names: tuple[str, ...] = ("n", "s", "b", "flag")
        if rng.random() < 0.1:
            names, values = (*names, "a b", ""), (float("inf"), float("nan"), 2**63, None, "\x00")
        return {rng.choice(names): rng.choice(values) for _ in range(rng.randrange(4))}

    def event(self) -> Event:
        rng = self.rng
        sizes = (0, 0, 1, 100, 3_000)
        publisher = self.name() or "x"
        identity = EventId(publisher, abs(self.number()) % 2**63, max(1, self.number()))
        return Event(
            identity if rng.random() < 0.9 else self.value(EventId),
            {"hostile": True, **self.attributes()},
            bytes(rng.choice(sizes)),
        )

    def sound_event(self, publisher: str) -> Event:
        number = self.rng.randrange(1, 1_000)
        return Event(EventId(publisher, self._epoch, number), {"n": number, "hostile": True}, b"")

    def value(self, kind: Any, name: str = "", depth: int = 0) -> Any:
        """A value of a type, as fields of messages have them."""
        rng = self.rng
        if kind is Event:
            return self.event()
        if kind is Filter:
            return rng.choice(FILTERS)
        if kind == message_base.Node:
            return self.name()
        if kind == message_base.NetworkAddress:
            return rng.choice(ADDRESSES)
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Annotated:
            made = self.value(parts[0], name, depth)
            if rng.random() < 0.03:
                return made
            if isinstance(made, list) and not made and parts[1].min_length:
                return [self.value(get_args(parts[0])[0], name, depth)]
            return _within(made, parts[1])
        if origin is types.UnionType:
            return self.value(rng.choice(parts), name, depth)
        if origin is Literal:
            return rng.choice(parts)
        if origin in (list, dict, tuple):
            return self._container(origin, parts, name, depth)
        return self._simple(kind, name, depth)

    def _container(self, origin: type, parts: tuple[Any, ...], name: str, depth: int) -> Any:
        rng = self.rng
        if origin is tuple and parts[1:] != (...,):
            return tuple(self.value(part, name, depth) for part in parts)
        count = rng.choice((0, 1, 1, 2, 3)) if depth < DEPTH_MAX else 0
        if rng.random() < 0.01 and depth < 2:
            count = 60
        if origin is dict:
            return {self.value(parts[0], name, depth): self.value(parts[1], name, depth) for _ in range(count)}
        return [self.value(parts[0], name, depth) for _ in range(count)]

    def _simple(self, kind: Any, name: str, depth: int) -> Any:
        rng = self.rng
        if kind is types.NoneType or kind is None:
            return None
        if kind is bool:
            return rng.random() < 0.5
        if kind is int:
            return self.number()
        if kind is float:
            return rng.choice((0.0, 1.0, 1e-300, 1e9, float("inf"), float("nan"), -1.0))
        if kind is str:
            return self.text(name)
        if kind is bytes:
            return rng.randbytes(rng.choice((0, 1, 8, 32, 1_000)))
        if issubclass(kind, Enum):
            return rng.choice(list(kind))
        return self.instance(kind, depth + 1)

    def instance(self, kind: type, depth: int = 0) -> Any:
        """One of a message, a struct or a named tuple; some of the fields that have defaults keep these."""
        if not issubclass(kind, msgspec.Struct):
            return kind(*(self.value(part, name, depth) for name, part in get_type_hints(kind).items()))
        return kind(*(self._field(each.name, each.type, depth) for each in msgspec.structs.fields(kind)))

    def _field(self, name: str, kind: Any, depth: int) -> Any:
        """Often what the broker has said in a field of the same name."""
        known = self._memory.get(name)
        return self.rng.choice(known) if known and self.rng.random() < 0.5 else self.value(kind, name, depth)

    def message(self, kinds: tuple[type[Message], ...] = KINDS) -> Message:
        made: Message = self.instance(self.rng.choice(kinds))
        return made

    # Payloads and frames -----------------------------------------------------------------------------------------

    def payload(self, kinds: tuple[type[Message], ...], publisher: str) -> bytes:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.06:
            return self.run(publisher)
        if draw < 0.10:
            return _nested(encode(self.message(kinds)), rng.choice((10, 2_000, 100_000)))
        made = encode(self.message(kinds))
        return mutated(rng, made) if draw < 0.18 else made

    def run(self, publisher: str) -> bytes:
        rng, kind = self.rng, self.rng.choice((Publish, Forward, Deliver))
        count = rng.choice((1, 2, 5, 50))
        events = [self.sound_event(publisher) if rng.random() < 0.8 else self.event() for _ in range(count)]
        return encode_run(kind, rng.choice((count, count, count, 0, 255)), b"".join(map(_encoded, events)))

    def aside(self, speaker: str) -> bytes:
        """A bulletin or a motion that has come the way of its sender, and may be as it should be otherwise."""
        rng = self.rng
        names = [*rng.sample(self.words.names, rng.choice((0, 1, 1, 2, 4))), speaker]
        way = [msgspec.structs.replace(self.instance(BrokerOnPath), broker=name) for name in names]
        links = [self.value(Amount) for _ in way[rng.choice((0, 1, 1)) :]]
        summary = self._memory.get("summary", [bytes(rng.choice((0, 32, 512)))])[0]
        bulletin = Bulletin(rng.choice((summary, bytes([255]) * len(summary))), self.value(NetworkAddress), way, links)
        motion = self.instance(Motion)
        ends = [*way, msgspec.structs.replace(self.instance(BrokerOnPath), broker=self.words.broker)]
        motion = msgspec.structs.replace(motion, way=rng.choice((way, ends)), links=[*links, *links[:1]])
        made = encode(rng.choice((bulletin, motion)))
        return _nested(made, 100_000) if rng.random() < 0.1 else made

    def frame(self, speaker: str) -> bytes:
        """Any but Data; some of them not as they are encoded."""
        rng, kind = self.rng, self.rng.choice(FRAMES)
        if kind is Aside:
            return encode_frame(Aside(self.aside(speaker) if rng.random() < 0.7 else self.payload(KINDS, speaker)))
        if kind is Bye and rng.random() < 0.5:
            return encode_frame(Bye(rng.choice(list(ByeReason)), "hostile", is_at_work=rng.random() < 0.5))
        if kind is Challenge:
            return encode_frame(Challenge(rng.randbytes(32)))
        if kind is Ack:
            return encode_frame(Ack(max(0, self.number())))
        made = encode_frame(self.instance(kind))
        return mutated(rng, made) if rng.random() < 0.1 else made

    # Sessions ----------------------------------------------------------------------------------------------------

    def session(self, port: str) -> Iterator[bytes]:
        """What to write to a port, piece by piece; `heard` may be called in between."""
        draw, self._last = self.rng.random(), None
        if draw < 0.08:
            yield self.garbage()
        elif draw < 0.3:
            yield from self._odd_session(port)
        elif port == "peer":
            yield from self._broker_session()
        else:
            yield from self._client_session()

    def garbage(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.5:
            return rng.randbytes(rng.randrange(1, 300))
        return mutated(rng, encode_frame(self.hello("client")) + encode_frame(Data(1, encode(Attach()))))

    def hello(self, role: str, name: str = "") -> Hello:
        numbers = [self.number() for _ in range(4)]
        node = name or self._allowed(self.name())
        return Hello(node, *numbers, role=role, wants=self.text(), awaits=self.number(), token=self.text())

    def _allowed(self, name: str) -> str:
        return self.rng.choice(self.words.own) if name in self.words.forbidden else name

    def _odd_session(self, port: str) -> Iterator[bytes]:
        """A Hello in which everything is drawn by lot, perhaps after log-ins, and then whatever there is."""
        rng = self.rng
        for _ in range(rng.choice((0, 0, 1, 3))):
            yield encode_frame(self.instance(Login))
        hello = self.hello(rng.choice(ROLES))
        if rng.random() < 0.7:  # so that more of it gets beyond the first check
            role = rng.choice(ROLES[:6])
            node = hello.node if port == "peer" else self.rng.choice((self.words.own[0], hello.node))
            hello = Hello(node, self._fresh(), abs(hello.peer_epoch) % 2**62, 0, 1, role=role, token=hello.token)
        yield encode_frame(hello)
        for number in range(1, rng.randrange(1, 8)):
            if rng.random() < 0.5:
                yield self.frame(hello.node)
            else:
                yield encode_frame(Data(rng.choice((number, number, self.positive())), self.payload(KINDS, hello.node)))

    def _client_session(self) -> Iterator[bytes]:
        """A client that is welcome, and then asks for all sorts of things."""
        rng, name = self.rng, self.rng.choice(self.words.own)
        sender, hello = self._introduced("client", name)
        yield hello
        yield self._data(sender, encode(Attach()))
        if rng.random() < 0.5:
            yield self._data(sender, encode(Subscribe("s", rng.choice(FILTERS))))
        if rng.random() < 0.5:
            yield self._data(sender, encode(Publish(self.sound_event(name))))
        yield from self._talk(sender, name, CLIENT_KINDS)

    def _broker_session(self) -> Iterator[bytes]:
        """A broker that is expected, where it may be, and what brokers say to each other."""
        rng = self.rng
        expected = self.words.neighbours if self._is_neighbour else self.words.own
        name = rng.choice(expected) if expected and rng.random() < 0.85 else self._allowed(self.name())
        sender, hello = self._introduced("peer", name, role="broker")
        yield hello
        opening = self._opening(name) if rng.random() < 0.6 else []
        for message in opening:
            yield self._data(sender, encode(message))
            if rng.random() < 0.15:
                yield self._data(sender, self.payload(self._owned, name))
        area = (type(opening[0]) if opening else rng.choice(self._owned)).__module__
        yield from self._talk(sender, name, tuple(kind for kind in self._owned if kind.__module__ == area))

    def _opening(self, me: str) -> list[Message]:
        """The first messages of an operation as its protocol has them, so that the rest comes to a broker in it."""
        rng, here = self.rng, self.words.broker
        operation = f"hostile {rng.randrange(10**6)}"
        other, far = rng.choice((*self.words.neighbours, *self.words.others)), rng.choice(self.words.others or ("z",))
        self._memory["operation"] = [operation] * 3
        client = msgspec.structs.replace(self.instance(HandedClient), name=rng.choice(self.words.own))
        tables = [self.value(list[TableEntries]) for _ in range(2)]
        path, last = rng.choice(([me, here, other], [far, me, here], [me, here], [far, me, here, other])), rng.random()
        protocol, cut = rng.choice(PROTOCOLS), rng.choice((0, 1, 2))
        openings: tuple[list[Message], ...] = (
            [Lock(operation, far, me, here, "127.0.0.1:9"), Swap(operation, *tables), Close(operation)],
            [Lock(operation, me, here, other, "127.0.0.1:9"), Swap(operation, *tables), Close(operation)],
            [LockCycle(operation, path, cut, protocol, "127.0.0.1:9"), Begin(operation)],
            [RemoveReq(operation), Handover(operation, [client] if last < 0.7 else []), Said(client.name, Attach())],
            [RemoveReq(operation), Handover(operation, []), Left(operation)],
            [Negotiate(operation, client, path), MoveState(operation, client), MoveCommit(operation)],
            [Negotiate(operation, client, path), MoveAbort(operation)],
        )
        whole = rng.choice(openings)
        return [each for each in whole[: rng.randrange(1, len(whole) + 1)] if type(each) in self._owned]

    def _introduced(self, port: str, name: str, role: str = "client") -> tuple[Sender, bytes]:
        """A new life of a name, or the old one that goes on."""
        sender = self._senders.setdefault((port, name), Sender())
        if not sender.epoch or self.rng.random() < 0.6:
            sender.epoch, sender.number = self._fresh(), 0
        known = self.rng.choice(self.words.epochs) if self.rng.random() < 0.1 else 0
        self._last = (role, name, sender)
        return sender, encode_frame(Hello(name, sender.epoch, abs(known) % 2**62, 0, 1, role=role))

    def again(self) -> bytes:
        """The Hello with which a session goes on that the broker has ended; empty where none can go on."""
        if self._last is None:
            return b""
        role, name, sender = self._last
        return encode_frame(Hello(name, sender.epoch, 0, 0, 1, role=role))

    def _talk(self, sender: Sender, name: str, kinds: tuple[type[Message], ...]) -> Iterator[bytes]:
        rng = self.rng
        for _ in range(rng.choice((1, 3, 8, 20, 40))):
            draw = rng.random()
            if draw < 0.12:
                yield self.frame(name)
            elif draw < 0.16:
                yield encode_frame(Data(self.positive(), self.payload(KINDS, name)))
            else:
                among = kinds if draw < 0.65 else self._owned if draw < 0.97 else KINDS
                yield self._data(sender, self.payload(among, name))

    def _data(self, sender: Sender, payload: bytes) -> bytes:
        sender.number += 1
        return encode_frame(Data(sender.number, payload))

    def positive(self) -> int:
        return max(1, self.number()) % 2**64

    def _fresh(self) -> int:
        self._epoch += 1_000
        return self._epoch

    # Other ports -------------------------------------------------------------------------------------------------

    def datagram(self, me: str) -> bytes:
        rng = self.rng
        sender = self.name()
        made = pack(("pleach-ring-2", sender, rng.choice(("", me, me, me, sender)), self.message(RING_KINDS)))
        return mutated(rng, made) if rng.random() < 0.2 else made

    # Answers -----------------------------------------------------------------------------------------------------

    def heard(self, frames: list[Frame]) -> None:
        """Take up epochs, and names of operations, from what a broker has sent."""
        for frame in frames:
            if isinstance(frame, Hello):
                self.words.epochs = [frame.epoch, *self.words.epochs[:5]]
                if self._last is not None and frame.peer_epoch == self._last[2].epoch:
                    self._last[2].number = frame.received  # so far the broker has it
            elif isinstance(frame, Data | Aside):
                self._take_up(frame.payload)

    def _take_up(self, payload: bytes) -> None:
        try:
            messages = decode_all(payload)
        except (msgspec.DecodeError, PleachError):
            return
        for message in messages:
            for name in message.__struct_fields__:
                value = getattr(message, name)
                self._memory[name] = [value, *self._memory.get(name, [])[:5]]
                if name == "operation" and value not in self.words.operations:
                    self.words.operations = [value, *self.words.operations[:7]]


def _within(value: Any, meta: msgspec.Meta) -> Any:
    """The nearest number that a type allows."""
    if not isinstance(value, int | float) or value != value:
        return value if isinstance(value, str | bytes | list | dict) else 0.0
    value = value if meta.le is None else min(value, meta.le)
    return value if meta.ge is None else max(value, meta.ge)


def frames_in(data: bytes) -> list[Frame]:
    try:
        return list(FrameReader().feed(data))
    except FrameError:
        return []


def _encoded(event: Event) -> bytes:
    try:
        return encode_event(event)
    except (OverflowError, msgspec.MsgspecError):
        return b"\xc0"


def _nested(payload: bytes, depth: int) -> bytes:
    """The same message with a further field: an array in an array in an array …"""
    if payload[0] & 0xF0 != 0x90 or payload[0] == 0x9F:
        return payload
    return bytes([payload[0] + 1]) + payload[1:] + b"\x91" * depth + b"\xc0"
