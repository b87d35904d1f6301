"""Hostile acts that keep to the frames and messages of the protocol, and say what was not asked for (see hostile_acts.py).

Names are invented or belong to nobody who works: without a log-in, whoever comes under another's name is believed.
"""

from __future__ import annotations

from random import Random

from pleach.core.events.event import EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import Returning
from support.live.hostile_acts import act
from support.live.hostile_wire import Target, greeting, numbered, say

LAST = 2**63 - 1


@act
async def says_it_returns(rng: Random, target: Target) -> None:
    """Marks that cover all that the victim will ever publish, and more subscriptions than a broker takes."""
    wanted = {f"s{n}": parse_filter(f"hostile = {n}") for n in range(rng.choice([0, 10, 2_000]))}
    marks = [EventId(target.victim, LAST, LAST)]
    said = Returning(True, marks, wanted, {}, marks, [EventId(target.victim, LAST, LAST)])
    await say(target.client, greeting(rng), *numbered([said, said]))
