"""Connections for those who mean no good: bytes as they like, written and read within bounds of time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pleach.core.links.frames import Data, Hello, encode_frame
from pleach.core.messages import Attach, Message, encode

CONNECT_SECONDS_MAX = 10.0
LINGER_SECONDS_MAX = 2.0  # of acts that stay silent, or do not read
NAMES = 200  # hostile clients share these: each new life of one makes the broker clear away the former


class Target(NamedTuple):
    client: tuple[str, int]
    peer: tuple[str, int]
    admin: tuple[str, int]
    broker: str
    neighbour: str  # one that is configured and not running
    victim: str  # a client that is at work


Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(address: tuple[str, int], *, receive_bytes: int = 0, source: str = "") -> AsyncIterator[Connection]:
    """A connection that is gone afterwards, without waiting for the other side."""
    raw = socket.socket()
    raw.setblocking(False)
    if receive_bytes:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        if source:
            raw.bind((source, 0))
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await asyncio.get_running_loop().sock_connect(raw, address)
    except BaseException:
        raw.close()
        raise
    reader, writer = await asyncio.open_connection(sock=raw, limit=4_096)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def send(connection: Connection, *data: bytes) -> None:
    """Write, for as long as the broker takes it, within a bound."""
    _, writer = connection
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS_MAX):
            for piece in data:
                writer.write(piece)
                await writer.drain()


async def hear_out(connection: Connection, seconds: float = 0.2) -> None:
    """Read what the broker says until it hangs up or has nothing more to say."""
    reader, _ = connection
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while await reader.read(65_536):
                pass


async def say(address: tuple[str, int], *data: bytes) -> None:
    async with connected(address) as connection:
        await send(connection, *data)
        await hear_out(connection)


def greeting(rng: Random, name: str = "") -> bytes:
    return encode_frame(Hello(name or f"hostile-{rng.randrange(NAMES)}", time.time_ns(), 0, 0, 1, role="client"))


def raw_frame(kind: int, body: bytes, number: int = 0) -> bytes:
    return struct.pack(">IBQ", 9 + len(body), kind, number) + body


def numbered(messages: list[Message]) -> list[bytes]:
    return [encode_frame(Data(n, encode(message))) for n, message in enumerate(messages, start=1)]


def raw_messages(*values: Any) -> list[bytes]:
    """Attach, then what no encoder of ours would write."""
    packed = [encode(Attach()), *(msgspec.msgpack.encode(value) for value in values)]
    return [encode_frame(Data(n, payload)) for n, payload in enumerate(packed, start=1)]
