"""Bytes from a hostile peer: mutated frames and messages must raise what is promised, and nothing else.

Each round mutates a stream of frames and an encoded message. What escapes is printed with the bytes that did it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from pleach.core.events.event import Event, EventId
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
    LoginKind,
    Ping,
    Probe,
    Read,
    StandbyPart,
    encode_frame,
)
from pleach.core.messages import (
    Advertise,
    Attach,
    Deliver,
    Forward,
    Install,
    Installed,
    Layer,
    Mark,
    Marked,
    Message,
    Publish,
    PublishRefused,
    Refused,
    Subscribe,
    Unsubscribe,
    Withdraw,
    decode,
    encode,
)
from pleach.errors import FrameError, PleachError

SIZE_MAX = 4_000  # bytes of a mutated string
ALLOWED_FROM_DECODE = (msgspec.DecodeError, PleachError)

FILTER = parse_filter("topic = 'a' AND price BETWEEN 1 AND 8")
EVENT = Event(EventId("c", 0, 7), {"topic": "ä", "price": 3.5, "raw": b"\x00\xff", "ok": True}, b"payload")
SAMPLES: tuple[Frame, ...] = (
    Hello("a", 1_700_000_000, 3, 17, 4),
    Data(1, encode(Publish(EVENT))),
    Data(2**40, b""),
    Ack(9),
    Ping(),
    Bye(ByeReason.FENCED, "a newer a is known"),
    Probe(7, ["a", "b"]),
    Read(40, 57, 1_000, is_survey=True),
    Extent(57, 41, 60),
    Aside(b"to whom it may concern"),
    Login(LoginKind.TOKEN, "alice", b"a.b.c"),
    Challenge(bytes(32)),
    StandbyPart(b"to a machine", has_more=True),
)
MESSAGES: tuple[Message, ...] = (
    Attach(),
    Publish(EVENT),
    Subscribe("s", FILTER),
    Unsubscribe("s"),
    Advertise("s", FILTER),
    Deliver(EVENT),
    PublishRefused(EVENT.id, "why"),
    Refused("s", "why"),
    Forward(EVENT),
    Install(Layer.SUBSCRIPTIONS, 3, "c/s", FILTER),
    Withdraw(Layer.ADVERTISEMENTS, "c/s", FILTER),
    Installed(Layer.SUBSCRIPTIONS, 3),
    Marked("1", Mark.FLOOD, "a", Forward(EVENT)),
)
# Bytes that mean something in MessagePack: small numbers, containers, texts, nil, floats, wide lengths, bad UTF-8.
TELLING = bytes([0, 1, 0x80, 0x81, 0x90, 0x91, 0x9F, 0xA0, 0xA1, 0xC0, 0xC1, 0xC3, 0xC6, 0xCB, 0xCF, 0xDB, 0xDD, 0xFF])


@dataclass
class Tally:
    frames_read: int = 0
    frames_refused: int = 0
    messages_read: int = 0
    messages_refused: int = 0
    escaped: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def kinds_escaped(self) -> Counter[str]:
        return Counter(what for what, _ in self.escaped)


def mutated(stream: Random, data: bytes) -> bytes:
    """A few changes: bytes replaced, taken out, put in, doubled; the end cut off."""
    changed = bytearray(data)
    for _ in range(stream.randint(1, 4)):
        at = stream.randrange(len(changed) + 1)
        match stream.randrange(6):
            case 0:
                changed[at : at + 1] = stream.randbytes(1)
            case 1:
                changed[at : at + 1] = bytes([stream.choice(TELLING)])
            case 2:
                del changed[at : at + stream.randint(1, 4)]
            case 3:
                changed[at:at] = stream.randbytes(stream.randint(1, 4))
            case 4:
                changed[at:at] = bytes([stream.choice(TELLING)]) * stream.choice((1, 2, 2, 1_500))
            case _:
                del changed[at:]
    return bytes(changed[:SIZE_MAX])


def read_stream(data: bytes) -> int:
    return sum(1 for _ in FrameReader().feed(data))


def fuzz(count: int, seed: int, *, read_frames: Callable[[bytes], int] = read_stream) -> Tally:
    stream = Random(f"fuzz/{seed}")
    tally = Tally()
    for _ in range(count):
        frames = b"".join(encode_frame(frame) for frame in stream.choices(SAMPLES, k=stream.randint(1, 3)))
        noise = mutated(stream, frames) if stream.random() < 0.9 else stream.randbytes(stream.randint(0, 60))
        try:
            tally.frames_read += read_frames(noise)
        except FrameError:
            tally.frames_refused += 1
        except Exception as error:  # noqa: BLE001 - what is looked for
            tally.escaped.append((type(error).__name__, noise))
        _try_message(tally, mutated(stream, encode(stream.choice(MESSAGES))))
    return tally


def _try_message(tally: Tally, noise: bytes) -> None:
    try:
        decode(noise)
    except ALLOWED_FROM_DECODE:
        tally.messages_refused += 1
    except Exception as error:  # noqa: BLE001 - what is looked for
        tally.escaped.append((f"{type(error).__name__} from a message", noise))
    else:
        tally.messages_read += 1
