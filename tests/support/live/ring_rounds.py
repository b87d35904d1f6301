"""Brokers of a ring that come and go at once, round by round under load: one tree each time, and a clean trace.

All of them are daemons in one loop. Each broker has a client that wants what only it wants; clients of a broker that
leaves go elsewhere. The exit code is 1 if an event was lost, doubled or out of order; a tree that does not come about
in time is an error.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from pleach.server.ring.settings import RingSettings
from pleach.trace import Verdict, explain, judge
from support.live.daemons import Running
from support.live.fleet import Witness
from support.live.ring_tree import until_followed

QUICK = {"stabilise_every": 0.2, "check_tree_every": 0.3}
COMING_MAX, GOING_MAX, BROKERS_MAX = 4, 3, 10
ROUND_SECONDS_MAX = 120.0
EVENTS_PER_SECOND = 10


class Rounds:
    def __init__(self, running: Running, witness: Witness, seed: int) -> None:
        self._running = running
        self._witness = witness
        self._random = Random(seed)
        self._born = 0
        self.took: list[float] = []  # from the last that came or went to the tree of the ring, by round

    async def begin(self) -> None:
        await self._come(RingSettings(found=True, **QUICK))
        await self._witness.connect("publisher", self._door("n1"))

    async def round(self) -> None:
        here = sorted(self._running.daemons)
        going = self._random.sample(here, self._random.randint(0, min(GOING_MAX, len(here) - 1)))
        staying = [name for name in here if name not in going]
        room = BROKERS_MAX - len(staying)
        coming = [self._seeded(here, staying) for _ in range(self._random.randint(1, min(COMING_MAX, room)))]
        for name in going:
            self._running.daemons[name]._asked_to_stop()
        work = asyncio.gather(*map(self._come, coming), *map(self._ended, going))
        await asyncio.wait_for(work, ROUND_SECONDS_MAX)
        left = sorted(self._running.daemons)
        self.took.append(await until_followed([self._running.ready[left[0]].admin], left, ROUND_SECONDS_MAX))

    def _seeded(self, here: list[str], staying: list[str]) -> RingSettings:
        """Two seeds, one of which is going to stay."""
        seeds = (self._random.choice(here), self._random.choice(staying))
        return RingSettings(join=tuple(self._running.ready[seed].peer for seed in seeds), join_seconds=60.0, **QUICK)

    async def _come(self, ring: RingSettings) -> None:
        self._born += 1
        name = f"n{self._born}"
        await self._running.start(name, ring=ring)
        await self._witness.connect(f"at-{name}", self._door(name), subscribe=f"topic = '{name}'")
        if "publisher" in self._witness.clients:
            self._witness.load("publisher", EVENTS_PER_SECOND, topic=name)

    async def _ended(self, name: str) -> None:
        assert await self._running.ended(name) == 0, name

    def _door(self, name: str) -> str:
        return f"pleach://{self._running.ready[name].client}"


async def rounds(number: int, seed: int, directory: Path) -> tuple[Verdict, str, list[float]]:
    """The verdict, what it means, and how long it took the tree to follow."""
    running = Running(directory)
    try:
        async with Witness("ring rounds") as witness:
            run = Rounds(running, witness, seed)
            await run.begin()
            for _ in range(number):
                await run.round()
            assert await witness.drain(), "not quiet in time"
            records = witness.recorder.records
            verdict = judge(records)
            return verdict, explain(verdict, records, 3), run.took
    finally:
        await running.stop_all()
