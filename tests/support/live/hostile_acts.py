"""What a hostile peer may try: each act opens one connection to a broker and misbehaves on it, for a bounded time.

An act knows nothing of the broker but its three addresses and the names that it should not use. Acts never judge: what
must hold while they go on is in hostile.py.
"""

from __future__ import annotations

import asyncio
import math
import struct
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import (
    CLIENT,
    FRAME_BYTES_MAX,
    Ack,
    Bye,
    ByeReason,
    Data,
    Frame,
    FrameKind,
    Hello,
    Ping,
    Probe,
    encode_frame,
)
from pleach.core.messages import (
    Advertise,
    Attach,
    Deliver,
    Detach,
    Forward,
    Install,
    Installed,
    Layer,
    Mark,
    Marked,
    Message,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Withdraw,
    encode,
    wire_tag,
)
from support.live.hostile_wire import (
    LINGER_SECONDS_MAX,
    NAMES,
    Target,
    connected,
    greeting,
    hear_out,
    numbered,
    raw_frame,
    raw_messages,
    say,
    send,
)

FLOOD_BYTES = 4 * 1_048_576
SUBSCRIPTIONS_PER_FLOOD = 500
EVERYTHING = parse_filter("n >= 0")

Act: TypeAlias = Callable[[Random, Target], Awaitable[None]]
ACTS: dict[str, Act] = {}


def act(function: Act) -> Act:
    ACTS[function.__name__] = function  # type: ignore[attr-defined]
    return function


# Before Hello ----------------------------------------------------------------------------------------------------


@act
async def garbage(rng: Random, target: Target) -> None:
    await say(rng.choice([target.client, target.peer]), rng.randbytes(rng.randrange(1, 4_000)))


@act
async def garbage_in_a_valid_length(rng: Random, target: Target) -> None:
    kind = rng.choice([*FrameKind, 0, 77, 255])
    frame = raw_frame(kind, rng.randbytes(rng.randrange(2_000)), rng.getrandbits(64))
    await say(rng.choice([target.client, target.peer]), frame)


@act
async def oversized(rng: Random, target: Target) -> None:
    length = rng.choice([FRAME_BYTES_MAX + 1, 2**31, 2**32 - 1])
    await say(rng.choice([target.client, target.peer]), struct.pack(">IBQ", length, FrameKind.HELLO, 0), bytes(100_000))


@act
async def large_before_hello(rng: Random, target: Target) -> None:
    """A length that is allowed, filled slowly: a stranger may not make the broker hold megabytes."""
    head = struct.pack(">IBQ", FRAME_BYTES_MAX, FrameKind.HELLO, 0)
    await say(rng.choice([target.client, target.peer]), head, *[bytes(65_536)] * 8)


@act
async def truncated(rng: Random, target: Target) -> None:
    whole = greeting(rng) + encode_frame(Data(1, encode(Attach())))
    async with connected(target.client) as connection:
        await send(connection, whole[: rng.randrange(len(whole))])


@act
async def open_and_close(rng: Random, target: Target) -> None:
    async with connected(rng.choice([target.client, target.peer, target.admin])):
        pass


@act
async def half_a_hello_then_silence(rng: Random, target: Target) -> None:
    async with connected(rng.choice([target.client, target.peer])) as connection:
        await send(connection, greeting(rng)[: rng.randrange(4, 20)])
        await hear_out(connection, rng.uniform(0, LINGER_SECONDS_MAX))


@act
async def hello_byte_by_byte(rng: Random, target: Target) -> None:
    async with connected(target.client) as connection:
        for byte in greeting(rng):
            await send(connection, bytes([byte]))
            await asyncio.sleep(0)
        await hear_out(connection)


# Hello -----------------------------------------------------------------------------------------------------------


@act
async def hostile_numbers(rng: Random, target: Target) -> None:
    odd = [-1, 0, 2**62, 2**63, 2**64 - 1, 1.5, None, True, "1", [], {"a": 1}, b"\x01"]
    values: list[Any] = [f"hostile-{rng.randrange(NAMES)}", time.time_ns(), 0, 0, 1, 1, "client"]
    for _ in range(rng.randint(1, 3)):
        values[rng.randrange(1, 7)] = rng.choice(odd)
    hello = raw_frame(FrameKind.HELLO, msgspec.msgpack.encode(values[: rng.randint(1, 7)]))
    await say(rng.choice([target.client, target.peer]), hello, *numbered([Attach()]))


@act
async def hostile_names(rng: Random, target: Target) -> None:
    """The victim's name only with an epoch that is older: without authentication a newer one would be believed."""
    names = ["", "x" * 300, "x" * 60_000, "a\nb", "\x1b[2J", "\u202e", "\x00", target.broker, target.neighbour]
    name = rng.choice([*names, target.victim, target.victim])
    epoch = 1 if name == target.victim else time.time_ns()
    hello = encode_frame(Hello(name, epoch, 0, 0, 1, role=rng.choice(["client", "broker", "", "\n"])))
    await say(rng.choice([target.client, target.peer]), hello, *numbered([Attach()]))


@act
async def impossible_progress(rng: Random, target: Target) -> None:
    """`received` beyond what was sent, for the broker's life that its Hello names."""
    numbers = (time.time_ns(), rng.getrandbits(60), rng.getrandbits(60), 2**61)
    hello = Hello(f"hostile-{rng.randrange(NAMES)}", *numbers, role=CLIENT)
    await say(target.client, encode_frame(hello), encode_frame(Data(2**61, encode(Attach()))))


@act
async def two_hellos(rng: Random, target: Target) -> None:
    await say(target.client, greeting(rng), greeting(rng), *numbered([Attach()]))


@act
async def as_the_neighbour(rng: Random, target: Target) -> None:
    """On the peer port under a name that is expected there: nothing that it sends makes sense."""
    messages: list[list[Message]] = [
        [Attach(), Publish(_event(target.neighbour))],
        [Subscribe("s", EVERYTHING)],
        [Installed(Layer.SUBSCRIPTIONS, 2**40)],
        [Withdraw(Layer.SUBSCRIPTIONS, "nobody/s", EVERYTHING)],
        [Deliver(_event("x"))],
    ]
    hello = encode_frame(Hello(target.neighbour, time.time_ns(), 0, 0, 1))
    await say(target.peer, hello, *numbered(rng.choice(messages)))


# After Hello -----------------------------------------------------------------------------------------------------


def _event(publisher: str, **attributes: Any) -> Event:
    return Event(EventId(publisher, 1, 1), {"hostile": 1, **attributes}, b"")


@act
async def garbage_payload(rng: Random, target: Target) -> None:
    await say(target.client, greeting(rng), encode_frame(Data(1, rng.randbytes(rng.randrange(500)))))


@act
async def hostile_frames(rng: Random, target: Target) -> None:
    frames: list[Frame] = [
        Data(rng.choice([2, 5, 2**63, 2**64 - 1]), encode(Attach())),
        Ack(rng.choice([1, 1_000, 2**64 - 1])),
        Probe(rng.getrandbits(62) + 1, [target.broker, target.neighbour]),
        Bye(rng.choice(list(ByeReason)), "a reason\nINFO a forged line\x1b[2J" + "x" * rng.choice([1, 100_000])),
    ]
    await say(target.client, greeting(rng), encode_frame(rng.choice(frames)))


@act
async def messages_of_others(rng: Random, target: Target) -> None:
    event = _event("hostile")
    messages: list[Message] = [
        Forward(event),
        Install(Layer.SUBSCRIPTIONS, 1, "hostile/s", EVERYTHING),
        Withdraw(Layer.SUBSCRIPTIONS, f"{target.victim}/s1", EVERYTHING),
        Installed(Layer.ADVERTISEMENTS, 1),
        Marked("1", Mark.FLOOD, "a", Forward(event)),
        Deliver(event),
        Published(event.id),
        Subscribed("s1"),
    ]
    await say(target.client, greeting(rng), *numbered([Attach(), rng.choice(messages)]))


@act
async def without_attach(rng: Random, target: Target) -> None:
    messages: list[Message] = [Publish(_event("hostile")), Subscribe("s", EVERYTHING), Unsubscribe("s"), Detach()]
    await say(target.client, greeting(rng), *numbered([rng.choice(messages)]))


@act
async def hostile_filters(rng: Random, target: Target) -> None:
    texts: list[Any] = [
        "(" * 2_000 + "a = 1" + ")" * 2_000,
        "NOT " * 900 + "a = 1",
        " OR ".join(f"a{n} = {n}" for n in range(400)),
        " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(32)),
        "a LIKE '%" + "ab%" * 1_000 + "'",
        "x" * 1_000_000,
        "a = 1e400",
        "",
        7,
        None,
        ["a = 1"],
        b"\xff\xfe",
    ]
    await say(target.client, greeting(rng), *raw_messages([wire_tag(Subscribe), "s", rng.choice(texts), True]))


@act
async def hostile_events(rng: Random, target: Target) -> None:
    name = f"hostile-{rng.randrange(NAMES)}"
    attributes: list[Any] = [
        {"n": math.nan},
        {"n": math.inf},
        {"n": [1, [2, [3]]]},
        {"n": {"n": {"n": 1}}},
        {"n": 2**64 - 1},
        {"n": None},
        {"": 1},
        {"k" * 10_000: 1},
        {f"k{n}": n for n in range(2_000)},
        [],
        7,
    ]
    event_id = [rng.choice([name, target.victim, ""]), rng.choice([1, -1, 2**64 - 1]), rng.choice([1, 0, -5])]
    published = [wire_tag(Publish), [event_id, rng.choice(attributes), rng.choice([b"", b"x" * 2_000_000, "text", 7])]]
    await say(target.client, greeting(rng, name), *raw_messages(published))


@act
async def deep_nesting(rng: Random, target: Target) -> None:
    """Containers in containers, where a decoder recurses."""
    payload = rng.choice([b"\x91", b"\x81\xa1a"]) * 100_000 + b"\x01"
    await say(target.client, greeting(rng), encode_frame(Data(1, payload)))


@act
async def a_flood_of_subscriptions(rng: Random, target: Target) -> None:
    await subscribe_a_lot(rng, target, SUBSCRIPTIONS_PER_FLOOD)


async def subscribe_a_lot(rng: Random, target: Target, count: int) -> None:
    asked = ([wire_tag(Subscribe), f"s{n}", f"hostile = {n}", True] for n in range(count))
    async with connected(target.client) as connection:
        await send(connection, greeting(rng), b"".join(raw_messages(*asked, [wire_tag(Detach)])))
        await hear_out(connection, LINGER_SECONDS_MAX)


@act
async def pairs_of_subscriptions(rng: Random, target: Target) -> None:
    """Nothing is left of them but what a broker writes down: its journal."""
    size, count = rng.choice([(3_000, 400), (20, 2_000)])
    async with connected(target.client) as connection:
        await send(connection, greeting(rng), *subscribed_and_withdrawn(size, count))
        await hear_out(connection, LINGER_SECONDS_MAX)


def subscribed_and_withdrawn(size: int, count: int) -> list[bytes]:
    """Frames of so many subscriptions with a filter of this size, each withdrawn at once; the client then leaves."""
    asked = ([wire_tag(Subscribe), "s", f"hostile = '{n}{'x' * size}'", False] for n in range(count))
    pairs = (message for subscribe in asked for message in (subscribe, [wire_tag(Unsubscribe), "s"]))
    return raw_messages(*pairs, [wire_tag(Detach)])


@act
async def huge_names(rng: Random, target: Target) -> None:
    """Subscriptions and advertisements whose names are the size of a frame."""
    name = "n" * rng.choice([300, 10_000, 3_000_000])
    message = rng.choice([Subscribe(name, EVERYTHING), Advertise(name, EVERYTHING), Unsubscribe(name)])
    await say(target.client, greeting(rng), *numbered([Attach(), message]))


@act
async def never_reading(rng: Random, target: Target) -> None:
    """Wants everything, sends itself more, and reads nothing of it."""
    name = f"hostile-{rng.randrange(NAMES)}"
    events = [Event(EventId(name, 1, n), {"hostile": 1}, bytes(50_000)) for n in range(1, 101)]
    messages = [Attach(), Subscribe("s", parse_filter("hostile = 1")), *map(Publish, events)]
    async with connected(target.client, receive_bytes=4_096) as connection:
        await send(connection, greeting(rng, name), *numbered(messages))
        await asyncio.sleep(rng.uniform(0, LINGER_SECONDS_MAX))


@act
async def confirmations_never_read(rng: Random, target: Target) -> None:
    """Each frame that is sent again is confirmed again: what happens to a broker's confirmations that nobody reads?"""
    again = encode_frame(Data(1, encode(Attach())))
    async with connected(target.client, receive_bytes=4_096) as connection:
        await send(connection, greeting(rng), again * (FLOOD_BYTES // len(again)))
        await asyncio.sleep(rng.uniform(0, LINGER_SECONDS_MAX))


@act
async def pings(rng: Random, target: Target) -> None:
    await say(target.client, greeting(rng), encode_frame(Ping()) * 20_000)


@act
async def most_of_a_large_frame(rng: Random, target: Target) -> None:
    async with connected(target.client) as connection:
        head = struct.pack(">IBQ", FRAME_BYTES_MAX, FrameKind.DATA, 1)
        await send(connection, greeting(rng), head, bytes(FRAME_BYTES_MAX - 100))
        await hear_out(connection, rng.uniform(0, LINGER_SECONDS_MAX))


# The operators' port ---------------------------------------------------------------------------------------------


@act
async def garbage_http(rng: Random, target: Target) -> None:
    requests = [
        rng.randbytes(500) + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /status HTTP/9.9\r\n\r\n",
        b"POST /status HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n" * 1_000,
    ]
    await say(target.admin, rng.choice(requests))


@act
async def huge_http(rng: Random, target: Target) -> None:
    await say(target.admin, b"GET /" + b"x" * rng.choice([8_000, 1_000_000]), b"X: y\r\n" * 100_000, b"\r\n\r\n")


@act
async def slow_http(rng: Random, target: Target) -> None:
    async with connected(target.admin) as connection:
        await send(connection, b"GET /status HT")
        await hear_out(connection, rng.uniform(0, LINGER_SECONDS_MAX))


@act
async def http_never_read(rng: Random, target: Target) -> None:
    async with connected(target.admin, receive_bytes=2_048) as connection:
        await send(connection, rng.choice([b"GET /status", b"GET /metrics"]) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(rng.uniform(0, LINGER_SECONDS_MAX))
