"""What a stranger may try at the operators' port: to use up its connections, and to be read in two ways.

Loopback has sixteen million addresses: an act comes from one of a few, the honest one among them.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random

from support.live.hostile_acts import act
from support.live.hostile_wire import LINGER_SECONDS_MAX, Connection, Target, connected, hear_out, say, send

ADDRESSES = tuple(f"127.0.0.{n}" for n in range(1, 9))
SILENT = 80  # connections of one act
DRIP_SECONDS = 0.05
SMUGGLED = b'{"broker": "smuggled"}'
EXPECT = (
    b"POST /overlay/expect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED)
)
POST = b"POST /overlay/expect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET_PATHS = (
    *("/healthz", "/readyz", "/metrics", "/status", "/glance", "/components", "/overlay/operations"),
    *("/overlay/operations/x", "/dashboard", "/dashboard/", "/dashboard/stream", "/nowhere"),
)

# Requests that two readers could read in two ways: each must be refused.
TWO_HOSTS = (
    b"GET /status HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
    b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /status HTTP/1.1\r\nHost: localhost\r\nhOST: localhost\r\n\r\n",
    b"GET /status HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /status HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n",
)
TWO_LENGTHS = (
    POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EXPECT,
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + EXPECT,
    POST + b"Content-Length: 2\r\nContent-Length: 24\r\n\r\n{}" + EXPECT,
    POST + b"Content-Length: 2, 24\r\n\r\n{}" + EXPECT,
    POST + b"Content-Length: +2\r\n\r\n{}" + EXPECT,
    POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + EXPECT,
    POST + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}" + EXPECT,
    POST + b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}" + EXPECT,
    POST + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 2\r\n\r\n{}" + EXPECT,
)
# What comes behind a request is not another one.
FOLLOWED = (
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + EXPECT,
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(EXPECT), EXPECT),
    POST + b"Content-Length: 2\r\n\r\n{}" + EXPECT,
)
HUGE_HEADS = (
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n" + b" folded\r\n" * 100_000 + b"\r\n",
)


@act
async def silent_http(rng: Random, target: Target) -> None:
    """More connections than there are slots, and not a word."""
    async with contextlib.AsyncExitStack() as stack:
        source = rng.choice(ADDRESSES)
        for _ in range(SILENT):
            await stack.enter_async_context(connected(target.admin, source=source))
        await asyncio.sleep(rng.uniform(0, LINGER_SECONDS_MAX))


@act
async def slow_loris(rng: Random, target: Target) -> None:
    """Heads that go on and on, a line at a time."""
    async with contextlib.AsyncExitStack() as stack:
        source = rng.choice(ADDRESSES)
        there = [await stack.enter_async_context(connected(target.admin, source=source)) for _ in range(SILENT // 4)]
        await asyncio.gather(*(_drip(each) for each in there))


async def _drip(connection: Connection) -> None:
    with contextlib.suppress(OSError):
        await send(connection, b"GET /healthz HTTP/1.1\r\n")
        for _ in range(int(LINGER_SECONDS_MAX / DRIP_SECONDS)):
            await asyncio.sleep(DRIP_SECONDS)
            await send(connection, b"X: y\r\n")


@act
async def ambiguous_http(rng: Random, target: Target) -> None:
    await say(target.admin, rng.choice(TWO_HOSTS + TWO_LENGTHS + FOLLOWED))


@act
async def rebound(rng: Random, target: Target) -> None:
    """A page of a site whose name was pointed at the broker."""
    for path in GET_PATHS:
        await say(target.admin, f"GET {path} HTTP/1.1\r\nHost: evil{rng.randrange(9)}.example\r\n\r\n".encode())


@act
async def huge_heads(rng: Random, target: Target) -> None:
    await say(target.admin, rng.choice(HUGE_HEADS))


@act
async def large_answers_never_read(rng: Random, target: Target) -> None:
    async with contextlib.AsyncExitStack() as stack:
        source = rng.choice(ADDRESSES)
        for _ in range(SILENT // 4):
            there = await stack.enter_async_context(connected(target.admin, source=source, receive_bytes=2_048))
            await send(there, b"GET /dashboard/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await hear_out(there, rng.uniform(0, LINGER_SECONDS_MAX))
