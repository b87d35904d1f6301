"""Clients that go to and fro between broker processes, under load: nothing may be lost, doubled or out of order.

A hundred clients on nine brokers, each subscribed to a topic of its own, and 1,000 events a second. Each client moves
to another broker and back, again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from pleach.core.messages import RequestMove
from pleach.core.overlay.plans import Topology
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Fleet, Witness

LINKS = (("b", "a"), ("c", "b"), ("d", "c"), ("e", "b"), ("f", "c"), ("g", "f"), ("h", "a"), ("i", "d"))
CLIENTS = 100
EVENTS_PER_SECOND = 1_000.0
PUBLISHERS = 5
PAUSE_SECONDS = 8.0  # on average, between two movements of a client
MOVE_SECONDS_MAX = 60.0


@dataclass
class Rounds:
    """`ends`: of movements, by how they ended. `seconds`: how long those took that were done."""

    ends: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    verdict: Verdict | None = None
    explained: str = ""


class End(NamedTuple):
    """When clients stay where they are: at this time, if they have moved so often by then, all together."""

    at: float
    moves_min: int


@dataclass(frozen=True)
class Traveller:
    name: str
    here: str
    there: str

    async def to_and_fro(self, fleet: Fleet, tree: Topology, rounds: Rounds, end: End, rng: Random) -> None:
        here, there = self.here, self.there
        while True:
            await asyncio.sleep(PAUSE_SECONDS * rng.uniform(0.2, 1.8))
            if time.monotonic() >= end.at and rounds.ends[OperationState.DONE.value] >= end.moves_min:
                return
            admin = (fleet.directory.admin[here], fleet.directory.admin[there])
            moving = ClientMove(RequestMove(fresh_name(), self.name, list(tree.path(here, there))), admin)
            began = time.monotonic()
            state, reason = await moving.carry_out(seconds_max=MOVE_SECONDS_MAX)
            rounds.ends[state.value + (f": {reason}" if reason else "")] += 1
            if state is OperationState.DONE:
                rounds.seconds.append(time.monotonic() - began)
                here, there = there, here


async def move_rounds(
    place: Path,
    *,
    seconds: float,
    links: Sequence[tuple[str, str]] = LINKS,
    clients: int = CLIENTS,
    per_second: float = EVENTS_PER_SECOND,
    seed: int = 1,
    moves_min: int = 0,
) -> Rounds:
    """Start a tree of brokers, let clients move for so long, and so often, and judge what they saw."""
    rng, tree, rounds = Random(seed), Topology.of(links), Rounds()
    travellers = [Traveller(f"k{n}", *rng.sample(tree.brokers, 2)) for n in range(clients)]
    async with Fleet(place) as fleet, Witness("moves") as witness:
        await fleet.grow(links)
        for number, each in enumerate(travellers):
            await witness.connect(each.name, fleet.client_address(each.here), subscribe=f"topic = {number}")
        for number in range(PUBLISHERS):
            await witness.connect(f"p{number}", fleet.client_address(rng.choice(tree.brokers)))
        for topic in range(clients):
            witness.load(f"p{topic % PUBLISHERS}", per_second / clients, topic=topic)
        end = End(time.monotonic() + seconds, moves_min)
        await asyncio.gather(*(each.to_and_fro(fleet, tree, rounds, end, rng) for each in travellers))
        if await witness.drain():
            rounds.verdict = judge(witness.recorder.records)
            rounds.explained = "" if rounds.verdict.clean else explain(rounds.verdict, witness.recorder.records)
    return rounds
