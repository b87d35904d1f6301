"""Networks of brokers with the whole profile, each on a machine of its own, and clients whose trace is judged.

Brokers come one by one, with one address of another. At each there is a client that wants what only it wants, and one
that publishes for all of them. What becomes of the network is told by the test; the oracle judges it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from pleach.core.overlay.plans import Topology, remove_broker
from pleach.errors import PleachError
from pleach.operate.apply import pursue
from pleach.operate.survey import Survey
from pleach.server.ring.steward import wanted_in
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Witness
from support.live.machines import Machines

SEEDS = 2  # members that a broker is told of: one of them may be gone
POLL_SECONDS = 0.2
SEEN_SECONDS_MAX = 120.0
FIRST_WHOLE = 3  # brokers: of fewer there is no majority of three machines


class TendedNetwork:
    """`per_second`: events for each broker's subscriber."""

    def __init__(self, machines: Machines, witness: Witness, per_second: float) -> None:
        self._machines = machines
        self._witness = witness
        self._per_second = per_second
        self.brokers: list[str] = []

    async def grow(self, names: Sequence[str], *flags: str) -> None:
        for name in names:
            await self.join(name, *flags)

    async def join(self, name: str, *flags: str) -> None:
        """With its clients, once there are two: a broker alone has nowhere to put a copy, and serves none."""
        seeds = [self._machines.all[each].ports["peer"] for each in self.brokers[-SEEDS:] if each in self._machines.all]
        await self._machines.add_broker(name, f"--join={','.join(seeds)}" if seeds else "--ring", *flags)
        self.brokers.append(name)
        fresh = self.brokers if len(self.brokers) == 2 else [name] if len(self.brokers) > 2 else []
        for each in fresh:
            await self._connect(each)

    async def _connect(self, broker: str) -> None:
        address = self._machines.client_address(broker)
        await self._witness.connect(f"s{broker}", address, subscribe=f"topic = '{broker}'")
        await self._witness.connect(f"p{broker}", address)
        others = [each for each in self.brokers if each != broker and f"p{each}" in self._witness.clients]
        for wanted, publisher in ((other, f"p{broker}") for other in others):
            self._witness.load(publisher, self._per_second, topic=wanted)
        for other in others:
            self._witness.load(f"p{other}", self._per_second, topic=broker)

    async def remove(self, name: str) -> None:
        """As `pleach overlay remove` does."""
        found = await self._machines.settled_survey()
        outcome = await pursue(
            found,
            lambda seen: remove_broker(seen.topology(), name),
            lambda plan, _seen: self._machines.apply(plan),
        )
        assert outcome.complete, outcome.unfinished
        self.brokers.remove(name)

    async def destroy(self, name: str) -> None:
        """The machine that a broker runs on, with whatever else runs there."""
        found = await self._machines.survey()
        await self._machines.destroy(self._machines.machine_of(found.admin[name]))

    async def until_whole(self) -> Survey:
        """One tree of all brokers, ready, each with its copies; and one ring of them all."""
        found = await self._machines.until_whole(self.brokers)
        await until(self._is_one_ring)
        return found

    async def _is_one_ring(self) -> bool:
        wanted = wanted_in(await self._machines.survey())
        return wanted.tree is not None and {*wanted.tree.brokers} == {*self.brokers}

    async def topology(self) -> Topology:
        return (await self._machines.settled_survey()).topology()

    async def counted(self, counter: str) -> int:
        """The sum of a counter over all brokers that answer."""
        found = await self._machines.survey()
        return sum(status.raw["counters"].get(counter, 0) for status in found.found.values())

    async def judged(self) -> Verdict:
        assert await self._witness.drain(), "not quiet in time"
        verdict = judge(self._witness.recorder.records)
        assert verdict.clean, explain(verdict, self._witness.recorder.records, 5)
        return verdict


@contextlib.asynccontextmanager
async def tended(place: Path, *, per_second: float, **environment: str):
    async with Machines(place, **environment) as machines, Witness("tended") as witness:
        network = TendedNetwork(machines, witness, per_second)
        try:
            yield machines, witness, network
        except (AssertionError, TimeoutError, PleachError):
            print(told_by(place))  # noqa: T201 - shown where the test fails
            raise


def told_by(place: Path) -> str:
    """The end of each log."""
    return "\n".join(f"--- {log.name}\n{log.read_text()[-3_000:]}" for log in sorted(place.glob("*.log")))


async def until(condition, seconds: float = SEEN_SECONDS_MAX) -> None:
    """`condition`: a coroutine function."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - other processes
            await asyncio.sleep(POLL_SECONDS)
