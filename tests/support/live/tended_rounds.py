"""Networks with the whole profile that grow to nine brokers under load, lose machines, see brokers off, and grow again.

A network begins with one broker. Others join one by one; then, in every round, one of: a machine is destroyed and a
broker joins, a broker is taken out and another one joins, all within each other's reach. After each step there is one
tree, one ring, and a copy of everything. At the end the oracle judges the trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pleach.trace import Verdict
from support.live.tended import TendedNetwork, tended

BROKERS = 9
PER_SECOND = 1.0  # for each pair of brokers
ZONES = ("east", "west", "north")
QUICK = {"PLEACH_IMPROVE_EVERY": "1.0", "PLEACH_IMPROVE_WINDOW": "8.0", "PLEACH_IMPROVE_SAVING_MIN": "0.0"}


@dataclass
class Report:
    """`took`: seconds of each step until all was whole again, by what it was."""

    took: list[tuple[str, float]] = field(default_factory=list)
    exchanged: int = 0
    verdict: Verdict | None = None


class TendedRounds:
    def __init__(self, network: TendedNetwork, rng: Random, report: Report, say: Callable[[str], None]) -> None:
        self._network = network
        self._rng = rng
        self._report = report
        self._say = say
        self._born = 0

    async def grow(self, count: int) -> None:
        for _ in range(count):
            await self._step("join", self._join)

    async def round(self, *, is_founder: bool = False) -> None:
        """`is_founder`: the first broker's machine is the one that is destroyed."""
        if is_founder or self._rng.random() < 0.5:
            victim = "n1" if is_founder else self._rng.choice(self._network.brokers)
            await self._step(f"destroy {victim}", lambda: self._network.destroy(victim))
            await self._step("join", self._join)
        else:
            victim = self._rng.choice(self._network.brokers[1:])
            await self._step(f"remove {victim}", lambda: self._network.remove(victim))
            await self._step("join", self._join)

    async def _join(self) -> None:
        self._born += 1
        await self._network.join(f"n{self._born}", f"--zone={self._rng.choice(ZONES)}")

    async def _step(self, what: str, step) -> None:
        began = time.monotonic()
        await step()
        if len(self._network.brokers) > 2:
            await self._network.until_whole()
        took = time.monotonic() - began
        self._report.took.append((what, took))
        self._say(f"{what}: {took:.1f} s")


async def rounds(
    number: int, seed: int, place: Path, *, brokers: int = BROKERS, say: Callable[[str], None] = lambda _: None
) -> Report:
    report = Report()
    async with tended(place, per_second=PER_SECOND, **QUICK) as (_, _, network):
        run = TendedRounds(network, Random(seed), report, say)
        await run.grow(brokers)
        for each in range(number):
            await run.round(is_founder=each == 0)
        report.exchanged = await network.counted("improve_changes")
        report.verdict = await network.judged()
        say(f"exchanges {report.exchanged}, {report.verdict.counts}")
    return report
