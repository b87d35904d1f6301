"""Hostile acts that keep to the frames of the protocol, and say what was not asked for (see hostile_acts.py).

Names are invented or belong to nobody who works: without a log-in, whoever comes under another's name is believed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Ack, Bye, ByeReason, FrameReader, Hello, Read, encode_frame
from pleach.core.messages import Attach, Connect, Lock, Publish, RequestRemove, RequestSwap, Seek, Subscribe
from support.live.hostile_acts import act
from support.live.hostile_wire import (
    LINGER_SECONDS_MAX,
    NAMES,
    Connection,
    Target,
    connected,
    greeting,
    hear_out,
    numbered,
    say,
    send,
)


@act
async def roles_of_others(rng: Random, target: Target) -> None:
    """A broker, a machine or worse at the clients' port, and then at the peers' port under the same name."""
    name, role = f"hostile-{rng.randrange(NAMES)}", rng.choice(["standby", "broker", "meter", "operator", ""])
    fenced = encode_frame(Bye(ByeReason.FENCED, "another one is at work", is_at_work=True))
    await say(target.client, encode_frame(Hello(name, time.time_ns(), 0, 0, 1, role=role)), fenced)
    await say(target.peer, encode_frame(Hello(name, time.time_ns(), 0, 0, 1, role=role)), fenced)


@act
async def a_neighbour_from_the_future(rng: Random, target: Target) -> None:
    """Whoever has the name rightly would be fenced for as long as the epoch lies ahead."""
    epoch = rng.choice([2**62 - 1, time.time_ns() + 86_400 * 10**9])
    await say(target.peer, encode_frame(Hello(target.neighbour, epoch, 0, 0, 1)))


@act
async def a_neighbour_that_fences(rng: Random, target: Target) -> None:
    """Its Bye says that the broker is outdated, which ends nobody who has not dialled it."""
    fenced = Bye(ByeReason.FENCED, "another one is at work", is_at_work=rng.random() < 0.5)
    await say(target.peer, encode_frame(Hello(target.neighbour, time.time_ns(), 0, 0, 1)), encode_frame(fenced))


@act
async def called_like_a_broker(rng: Random, target: Target) -> None:
    """The name of the broker, of its neighbour, and of brokers that it may be linked to one day."""
    name = rng.choice([target.broker, target.neighbour, "c", "d"])
    await say(target.client, greeting(rng, name), *numbered([Attach()]))


@act
async def reads_for_others(rng: Random, target: Target) -> None:
    """A reader without a token, of somebody who is at work: guesses of epochs tell it nothing."""
    guess = rng.choice([1, time.time_ns(), time.time_ns() - rng.randrange(10**12)])
    hello = Hello(target.victim, guess, rng.choice([0, guess]), 0, 1, role="reader", token=rng.choice(["", "0" * 32]))
    await say(target.client, encode_frame(hello), encode_frame(Read(0)), encode_frame(Ack(10**6)))


@act
async def reads_without_reading(rng: Random, target: Target) -> None:
    """Its own session, legitimately; but none of the answers is taken."""
    name, epoch = f"hostile-{rng.randrange(NAMES)}", time.time_ns()
    events = [Event(EventId(name, epoch, n), {"of": name}, bytes(50_000)) for n in range(1, 21)]
    messages = [Attach(), Subscribe("s", parse_filter(f"of = '{name}'"), network_wide=False), *map(Publish, events)]
    async with connected(target.client) as connection:
        hello = Hello(name, epoch, 0, 0, 1, role="client")
        await send(connection, encode_frame(hello), *numbered(messages))
        answer = await first_hello(connection, epoch)
        await hear_out(connection)
    if answer is None:
        return
    async with connected(target.client, receive_bytes=4_096) as connection:
        reader = Hello(name, epoch, answer.epoch, 0, 1, role="reader", token=answer.token)
        await send(connection, encode_frame(reader), encode_frame(Read(answer.first - 1)) * 400)
        await asyncio.sleep(rng.uniform(0, LINGER_SECONDS_MAX))


async def first_hello(connection: Connection, epoch: int) -> Hello | None:
    """What the broker says to this epoch of a client; None if it hangs up before."""
    frames = FrameReader()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS_MAX):
            while data := await connection[0].read(65_536):
                for frame in frames.feed(data):
                    if isinstance(frame, Hello) and frame.peer_epoch in (0, epoch):
                        return frame
    return None


@act
async def a_neighbour_as_an_operator(rng: Random, target: Target) -> None:
    requests = [RequestRemove("hostile", target.broker), RequestSwap("hostile", target.broker, target.neighbour, "c")]
    request = rng.choice(requests)
    hello = encode_frame(Hello(target.neighbour, time.time_ns(), 0, 0, 1))
    await say(target.peer, hello, *numbered([rng.choice([request, Seek(request)])]))


@act
async def addresses_that_are_none(rng: Random, target: Target) -> None:
    address = rng.choice(["a..b:7200", "x" * 64 + ":1", "a\n:1", "[::::]:1", "", "h:0", "ü" * 60 + ".example:1"])
    message = rng.choice([Connect("hostile", address), Lock("hostile", "c", target.neighbour, target.broker, address)])
    await say(target.peer, encode_frame(Hello(target.neighbour, time.time_ns(), 0, 0, 1)), *numbered([message]))
