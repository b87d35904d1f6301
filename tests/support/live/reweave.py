"""Random reconfigurations of a chain of five broker processes under load: nobody loses, doubles or reorders anything.

Brokers have data directories. A thousand events a second are published at both ends and in the middle, and subscribers
at both ends want all of them. Meanwhile links are swapped and exchanged, brokers join, and brokers leave with their
clients, who are sent elsewhere. The exit code is 1 if the verdict is not clean, or something was not carried out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pleach.core.overlay.plans import Plan, SwapStep, Topology, add_broker, exchange, remove_broker
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Fleet, Witness

LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
EVENTS_PER_SECOND = 1_000
BROKERS_MIN, BROKERS_MAX = 4, 7
WARM_UP_SECONDS = 1.0
KINDS = ("swap", "swap", "swap", "exchange", "exchange", "add", "remove")


@dataclass
class Report:
    verdict: Verdict
    quiet: bool
    done: dict[str, int]
    refused: list[str]
    seconds: float
    swap_seconds: list[float]
    gaps: dict[str, float]
    explained: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict.clean and self.quiet and not self.refused

    def lines(self) -> list[str]:
        counts, total = self.verdict.counts, sum(self.done.values())
        rate = 60.0 * total / self.seconds
        return [
            f"{total} reconfigurations in {self.seconds:.1f} s ({rate:.0f} per minute): "
            + ", ".join(f"{count} × {kind}" for kind, count in sorted(self.done.items())),
            f"swaps: p50 {_share(self.swap_seconds, 0.5):.3f} s, p99 {_share(self.swap_seconds, 0.99):.3f} s",
            f"events: {counts.published} published, {counts.deliveries} delivered",
            f"longest gap at a subscriber: {max(self.gaps.values(), default=0.0):.3f} s",
            f"verdict: {self.verdict.outcome}; lost, doubled, out of order: "
            + ", ".join(f"{rule} {n}" for rule, n in self.verdict.to_dict()["found"].items()),
            *(f"not carried out: {reason}" for reason in self.refused),
            *self.explained,
        ]


def _share(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Reweaver:
    def __init__(self, fleet: Fleet, rng: Random) -> None:
        self._fleet = fleet
        self._rng = rng
        self._count = 0
        self.done: dict[str, int] = {}
        self.refused: list[str] = []
        self.swap_seconds: list[float] = []

    async def once(self) -> None:
        tree = await self._fleet.topology()
        kind = self._rng.choice(KINDS)
        if kind == "add" and len(tree) >= BROKERS_MAX:
            kind = "remove"
        if kind == "remove" and len(tree) <= BROKERS_MIN:
            kind = "add"
        plan = await self._plan(kind, tree)
        started = time.monotonic()
        outcome = await self._fleet.apply(plan)
        if not outcome.complete:
            self.refused += outcome.lines()
            return
        self.done[kind] = self.done.get(kind, 0) + 1
        if kind == "swap":
            self.swap_seconds.append(time.monotonic() - started)
        for name in sorted({*plan.start.brokers} - {*plan.result.brokers}):
            await self._fleet.see_off(name)
        assert await self._fleet.topology() == plan.result

    async def _plan(self, kind: str, tree: Topology) -> Plan:
        rng = self._rng
        match kind:
            case "swap":
                a, b, c = rng.choice([(a, b, c) for b in tree.brokers for a in tree.neighbours(b)
                                      for c in tree.neighbours(b) if a != c])  # fmt: skip
                return Plan.of(tree, [SwapStep(a, b, c)])
            case "exchange":
                far = [(u, v) for u in tree.brokers for v in tree.brokers if u < v and not tree.has_link(u, v)]
                u, v = rng.choice(far)
                way = tree.path(u, v)
                at = rng.randrange(len(way) - 1)
                return exchange(tree, remove=(way[at], way[at + 1]), add=(u, v))
            case "add":
                self._count += 1
                name = f"n{self._count}"
                await self._fleet.start(name)
                return add_broker(tree, name, to=rng.choice(tree.brokers))
            case _:
                return remove_broker(tree, rng.choice(tree.brokers))


async def reweave(count: int, seed: int, place: Path, *, per_second: float = EVENTS_PER_SECOND) -> Report:
    async with Fleet(place) as fleet, Witness(f"reweave-{seed}") as witness:
        await fleet.grow(LINKS)
        for name in ("a", "e"):
            await witness.connect(f"s-{name}", fleet.client_address(name), subscribe="n > 0")
        for name in ("a", "c", "e"):
            await witness.connect(f"p-{name}", fleet.client_address(name))
            witness.load(f"p-{name}", per_second / 3, of=name)
        await asyncio.sleep(WARM_UP_SECONDS)
        witness.gaps.clear()
        reweaver = Reweaver(fleet, Random(seed))
        started = time.monotonic()
        for _ in range(count):
            await reweaver.once()
        seconds = time.monotonic() - started
        gaps = dict(witness.gaps)
        quiet = await witness.drain()
        verdict = judge(witness.recorder.records)
        report = Report(verdict, quiet, reweaver.done, reweaver.refused, seconds, reweaver.swap_seconds, gaps)
        if not verdict.clean:
            report.explained = [str(explain(verdict, witness.recorder.records))]
        return report
