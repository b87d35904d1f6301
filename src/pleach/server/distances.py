"""Measured distances to other brokers, with or without a link: for estimates of what other trees would cost.

    this broker ── Hello, role "meter" ──▶ the port for peers of another one
                ◀───────── Bye ──────────                                  seconds from the one to the other

The measurement takes the path that a link would take. Of some tries the quickest counts: the others include waiting.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pleach.core.links.frames import Bye, ByeReason, FrameReader, Hello, encode_frame
from pleach.core.messages import Node
from pleach.errors import FrameError, SettingsError
from pleach.net.addresses import parse_address, unreachable_if_no_host
from pleach.net.concurrency import at_most
from pleach.net.own_tls import open_streams

METER = "meter"
ANSWER = Bye(ByeReason.LEAVING, "measured")
TRIES = 3
TRY_SECONDS_MAX = 3.0
ASKED_AT_ONCE_MAX = 8  # more would delay each other
UNSTEADY_SECONDS = 0.1  # less than a packet that is lost takes to be sent again
RECEIVE_BYTES = 4_096


async def distances(name: Node, epoch: int, places: dict[Node, str]) -> dict[Node, float | None]:
    """Seconds there and back, by broker; None where nobody answers."""
    hello = encode_frame(Hello(name, epoch, 0, 0, 1, role=METER))
    found = await at_most(ASKED_AT_ONCE_MAX, lambda place: _distance(*place, hello), places.items())
    return dict(zip(places, found, strict=True))


async def is_steady(name: Node, epoch: int, broker: Node, address: str) -> bool:
    """Whether a broker answers each time, and each time about as soon: no packet had to be sent again."""
    hello = encode_frame(Hello(name, epoch, 0, 0, 1, role=METER))
    seconds = [trial.in_all for trial in await _tried(broker, address, hello)]
    return len(seconds) == TRIES and max(seconds) < 2 * min(seconds) + UNSTEADY_SECONDS


class Trial(NamedTuple):
    """Seconds of one measurement: with the making of the connection, and without."""

    in_all: float
    there_and_back: float


async def _distance(broker: Node, address: str, hello: bytes) -> float | None:
    return min((trial.there_and_back for trial in await _tried(broker, address, hello)), default=None)


async def _tried(broker: Node, address: str, hello: bytes) -> list[Trial]:
    """No further tries are made where one fails."""
    trials: list[Trial] = []
    for _ in range(TRIES):
        try:
            async with asyncio.timeout(TRY_SECONDS_MAX):
                trials.append(await _trial(broker, address, hello))
        except (OSError, TimeoutError, FrameError, SettingsError):
            break
    return trials


async def _trial(broker: Node, address: str, hello: bytes) -> Trial:
    host, port = parse_address(address, key="to")
    clock = asyncio.get_running_loop().time
    dialled = clock()
    with unreachable_if_no_host(host):
        reader, writer = await open_streams(host, port, broker)
    try:
        frames = FrameReader()
        since = clock()
        writer.write(hello)
        while data := await reader.read(RECEIVE_BYTES):
            for frame in frames.feed(data):
                if isinstance(frame, Bye) and frame == ANSWER:
                    return Trial(clock() - dialled, clock() - since)
        raise FrameError("it has hung up")
    finally:
        writer.transport.abort()
