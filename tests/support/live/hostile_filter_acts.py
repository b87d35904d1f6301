"""Hostile acts with filters that cost a broker more than their text lets one expect (see hostile_acts.py)."""

from __future__ import annotations

import time
from random import Random

import msgspec

from pleach.core.links.frames import Data, Hello, encode_frame
from pleach.core.messages import Advertise, Detach, Install, Layer, Subscribe, Unsubscribe, wire_tag
from support.live.hostile_acts import act
from support.live.hostile_wire import LINGER_SECONDS_MAX, Target, connected, greeting, hear_out, raw_messages, say, send

PAIRS = 200


def long_ends(characters: int) -> str:
    """The tree of the ends' beginnings took memory quadratic in their length: exit 72 at 400 KB."""
    return f"s BETWEEN '{'a' * (characters // 2)}' AND '{'a' * (characters // 2)}b' AND s LIKE '%q%'"


def long_pattern(characters: int) -> str:
    """Each step of the search went through the whole pattern: ten seconds at 53 KB."""
    return f"s LIKE '%{'a' * characters}%' AND s BETWEEN 'c' AND 'cb'"


def many_comparisons(conjunctions: int, first: int = 0) -> str:
    """Conjunctions that differ in their last constraint only, so that every pair is compared to the end."""
    return " OR ".join(
        " AND ".join([*(f"a{k} > {n}" for k in range(4)), f"b = {first + n}"]) for n in range(conjunctions)
    )


COSTLY = (
    long_ends(400_000),
    long_pattern(53_000),
    long_ends(7_000),
    long_pattern(7_000),
    many_comparisons(64),
    " AND ".join(f"s NOT LIKE '%{'ab' * 40}{n}%'" for n in range(60)),
    " OR ".join(f"s BETWEEN '{'ab' * 40}' AND '{'ab' * 40}{n}' AND s NOT LIKE '%{n}b%'" for n in range(60)),
)


@act
async def costly_filters(rng: Random, target: Target) -> None:
    kind, text = rng.choice([Subscribe, Advertise]), rng.choice(COSTLY)
    await say(target.client, greeting(rng), *raw_messages([wire_tag(kind), "s", text]))


@act
async def costly_installs(rng: Random, target: Target) -> None:
    """The same under the name of a neighbour."""
    hello = encode_frame(Hello(target.neighbour, time.time_ns(), 0, 0, 1))
    install = msgspec.msgpack.encode([wire_tag(Install), Layer.SUBSCRIPTIONS, 1, "x", rng.choice(COSTLY)])
    await say(target.peer, hello, encode_frame(Data(1, install)))


@act
async def pairs_of_long_filters(rng: Random, target: Target) -> None:
    """Subscribed and withdrawn at once: nothing is left of them but what a broker caches."""
    size = rng.choice([900_000, 30_000 // 4])
    async with connected(target.client) as connection:
        await send(connection, greeting(rng), *pairs(size, 20, seed=rng.randrange(10**6)))
        await hear_out(connection, LINGER_SECONDS_MAX)


def pairs(size: int, count: int, *, seed: int = 0) -> list[bytes]:
    """Frames of a client that subscribes with so many different filters, withdraws each at once, and leaves."""
    asked: list[list[object]] = []
    for n in range(count):
        asked += [
            [wire_tag(Subscribe), "s", f"hostile = '{seed}-{n}{'x' * size}'", False],
            [wire_tag(Unsubscribe), "s"],
        ]
    return raw_messages(*asked, [wire_tag(Detach)])
