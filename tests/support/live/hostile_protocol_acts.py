"""Hostile acts that keep to the frames of the protocol, and say what was not asked for (see hostile_acts.py).

Names are invented or belong to nobody who works: without a log-in, whoever comes under another's name is believed.
"""

from __future__ import annotations

import time
from random import Random

from pleach.core.events.event import EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Bye, ByeReason, Hello, encode_frame
from pleach.core.messages import Attach, Returning
from support.live.hostile_acts import act
from support.live.hostile_wire import NAMES, Target, greeting, numbered, say

LAST = 2**63 - 1


@act
async def says_it_returns(rng: Random, target: Target) -> None:
    """Marks that cover all that the victim will ever publish, and more subscriptions than a broker takes."""
    wanted = {f"s{n}": parse_filter(f"hostile = {n}") for n in range(rng.choice([0, 10, 2_000]))}
    marks = [EventId(target.victim, LAST, LAST)]
    said = Returning(True, marks, wanted, {}, marks, [EventId(target.victim, LAST, LAST)])
    await say(target.client, greeting(rng), *numbered([said, said]))


@act
async def roles_of_others(rng: Random, target: Target) -> None:
    """A stand-in, a broker or worse at the clients' port, and then at the peers' port under the same name."""
    name, role = f"hostile-{rng.randrange(NAMES)}", rng.choice(["stand-in", "broker", "guarded", "operator", ""])
    fenced = encode_frame(Bye(ByeReason.FENCED, "another one is at work", is_at_work=True))
    await say(target.client, encode_frame(Hello(name, time.time_ns(), 0, 0, 1, role=role)), fenced)
    await say(target.peer, encode_frame(Hello(name, time.time_ns(), 0, 0, 1, role=role)), fenced)


@act
async def a_neighbour_from_the_future(rng: Random, target: Target) -> None:
    """Whoever has the name rightly would be fenced for as long as the epoch lies ahead."""
    epoch = rng.choice([2**62 - 1, time.time_ns() + 86_400 * 10**9])
    hello = Hello(target.neighbour, epoch, 0, 0, 1, role=rng.choice(["broker", "stand-in"]))
    await say(target.peer, encode_frame(hello))


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
