"""Links between two brokers that are cut while both live: for how long no event passes, on real processes.

    c ── a ── b ── d        the link a–b is cut, in one way after the other; a, b, c and d reach each other otherwise

All connections pass a switch (harness/switch.py). At each broker a client publishes all the time, and one subscribes to
all that the others publish. Told per cut: the longest time in which a subscriber beyond the link got nothing from
there, when the link was relayed and when it was direct again. At the end the trace is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pleach.harness.switch import Link, Switch
from pleach.operate.survey import BrokerStatus
from pleach.trace import NETWORK, Record, RecordKind, Rule, Verdict, explain, judge
from support.live.fleet import Witness
from support.live.machines import Machines

LINKS = (("a", "b"), ("c", "a"), ("b", "d"))
BROKERS = ("a", "b", "c", "d")
SIDES = {"a": 0, "c": 0, "b": 1, "d": 1}  # of the link that is cut
CUT = ("a", "b")
LOSS = 0.3
FLAP_SECONDS = 1.0
POLL_SECONDS = 0.05
BACK_SECONDS_MAX = 60.0
READY_SECONDS_MAX = 60.0
STAYING = {"PLEACH_RELAY_REPLACE_SECONDS": "0"}  # the next cut is of the same link

Ends: TypeAlias = tuple[str, str]  # of a link: who dials, and who is dialled
Cut: TypeAlias = Callable[[Link, Ends], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def ended(link: Link, _ends: Ends) -> AsyncIterator[None]:
    """Connections end, and new ones are refused: a firewall that resets, a process in between that is gone."""
    link.cut()
    try:
        yield
    finally:
        link.heal()


@contextlib.asynccontextmanager
async def held(link: Link, senders: Sequence[str]) -> AsyncIterator[None]:
    for sender in senders:
        link.hold(sender)
    try:
        yield
    finally:
        for sender in senders:
            link.release(sender)


def silent(*senders: int) -> Cut:
    """Nothing that these ends send arrives: a cable, a firewall that drops."""
    return lambda link, ends: held(link, [ends[sender] for sender in senders])


@contextlib.asynccontextmanager
async def lossy(link: Link, _ends: Ends) -> AsyncIterator[None]:
    link.loss = LOSS
    try:
        yield
    finally:
        link.loss = 0.0


@contextlib.asynccontextmanager
async def flapping(link: Link, _ends: Ends) -> AsyncIterator[None]:
    async def flap() -> None:
        while True:
            link.cut()
            await asyncio.sleep(FLAP_SECONDS)
            link.heal()
            await asyncio.sleep(FLAP_SECONDS)

    task = asyncio.create_task(flap())
    try:
        yield
    finally:
        task.cancel()
        link.heal()


class CutKind(NamedTuple):
    name: str
    of: Cut


KINDS = {
    "ended": CutKind("connections end, new ones are refused", ended),
    "silent": CutKind("nothing arrives, either way", silent(0, 1)),
    "one-way": CutKind("nothing arrives from the one that dials", silent(0)),
    "other-way": CutKind("nothing arrives from the one that is dialled", silent(1)),
    "loss": CutKind(f"{LOSS:.0%} of all packets are lost", lossy),
    "flap": CutKind(f"cut and whole for {FLAP_SECONDS:g} s each", flapping),
}


@dataclass(frozen=True)
class CutFigures:
    kind: str
    seconds: float
    gap: float  # the longest time without an event from beyond the link, until the cure
    relayed: float | None  # seconds until the link was relayed; None: it was not
    direct: float | None  # seconds after the cure until it was direct again, if it was relayed

    def __str__(self) -> str:
        relayed = f"relayed after {self.relayed:.2f} s" if self.relayed is not None else "not relayed"
        direct = f", direct {self.direct:.2f} s after the cure" if self.direct is not None else ""
        return f"{self.kind} for {self.seconds:g} s: no event for {1_000 * self.gap:,.0f} ms at most; {relayed}{direct}"


@dataclass
class CutReport:
    cuts: list[CutFigures] = field(default_factory=list)
    verdict: Verdict | None = None
    wrong: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)  # brokers that run on another machine than at first

    def figures(self) -> dict[str, Any]:
        assert self.verdict is not None
        return {
            "cuts": [asdict(each) for each in self.cuts],
            "published": self.verdict.counts.published,
            "delivered": self.verdict.counts.deliveries,
            "found": {rule.value: self.verdict.count(rule) for rule in Rule},
            "wrong": self.wrong,
        }


class Crossings:
    """When events from beyond the link came to each subscriber."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def gap(self, since: float, until: float) -> float:
        """The longest time in which a subscriber got nothing from the other side."""
        topics = {record.event: record.node for record in self._records if record.kind is RecordKind.PUBLISH}
        times: dict[str, list[float]] = {f"s{broker}": [since] for broker in BROKERS}
        for record in self._records:
            if record.kind is RecordKind.DELIVER and since < record.at < until:
                publisher = topics[record.event].removeprefix("p")
                if SIDES[publisher] != SIDES[record.node.removeprefix("s")]:
                    times[record.node].append(record.at)
        return max(
            after - before for each in times.values() for before, after in zip(each, [*each[1:], until], strict=True)
        )


class CutNetwork:
    def __init__(self, machines: Machines, witness: Witness, switch: Switch) -> None:
        self.machines, self.witness, self.switch = machines, witness, switch

    async def start(self, per_second: float) -> None:
        await self.machines.grow(LINKS, {})
        await self._until(self._is_ready, READY_SECONDS_MAX)
        for broker in BROKERS:
            address = self.machines.client_address(broker)
            await self.witness.connect(f"p{broker}", address, switch=self.switch)
            await self.witness.connect(f"s{broker}", address, subscribe=f"topic != '{broker}'", switch=self.switch)
        for broker in BROKERS:
            self.witness.load(f"p{broker}", per_second / len(BROKERS), topic=broker)

    async def cut(self, name: str, seconds: float) -> CutFigures:
        link = self.switch.link(*CUT)
        self._note(f"cut: {name}")
        began = time.monotonic()
        async with KINDS[name].of(link, CUT):
            relayed = await self._until(self._is_relayed, seconds)
            await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        cured = time.monotonic()
        self._note(f"end of cut: {name}")
        direct = await self._until(self._is_direct, BACK_SECONDS_MAX) if await self._is_relayed() else None
        gap = Crossings(self.witness.recorder.records).gap(began, cured)
        return CutFigures(name, seconds, gap, relayed, direct)

    def _note(self, detail: str) -> None:
        self.witness.recorder.add(RecordKind.STATE, at=time.monotonic(), node=NETWORK, detail=detail)

    async def _until(self, holds: Callable[[], Any], seconds: float) -> float | None:
        """Seconds until it holds; None: it does not, in so many."""
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            if await holds():
                return time.monotonic() - began
            await asyncio.sleep(POLL_SECONDS)
        return None

    async def _is_ready(self) -> bool:
        found = (await self.machines.survey()).found
        return all(broker in found and not found[broker].reasons and _is_covered(found[broker]) for broker in BROKERS)

    async def moved(self) -> list[str]:
        found = await self.machines.survey()
        return [name for name, address in found.admin.items() if self.machines.machine_of(address) != name]

    async def relays(self) -> dict[str, str]:
        """Through whom each side of the link has it."""
        found = (await self.machines.survey()).found
        return {
            broker: found[broker].neighbours[peer].relay
            for broker, peer in (CUT, CUT[::-1])
            if broker in found and found[broker].neighbours[peer].up
        }

    async def _is_relayed(self) -> bool:
        found = await self.relays()
        return len(found) == len(CUT) and all(found.values())

    async def _is_direct(self) -> bool:
        found = await self.relays()
        return len(found) == len(CUT) and not any(found.values())


def _is_covered(status: BrokerStatus) -> bool:
    """Whether it has its copies, if it shall have any."""
    return status.standby is None or status.standby.covered


async def cut_rounds(
    kinds: Sequence[str],
    seconds: float,
    place: Path,
    per_second: float,
    *,
    settings: Sequence[str] = ("--relay",),
    say: Callable[[str], None],
) -> CutReport:
    report, run = CutReport(), "cuts"
    switch = Switch(lambda *_: (0.0, 0.001), run)
    await switch.start()
    try:
        environment = STAYING if "--relay" in settings else {}  # it alone would be a table [relay]
        async with Machines(place, *settings, switch=switch, **environment) as machines, Witness(run) as witness:
            network = CutNetwork(machines, witness, switch)
            await network.start(per_second)
            for kind in kinds:
                await asyncio.sleep(1.0)
                report.cuts.append(await network.cut(kind, seconds))
                say(f"  {report.cuts[-1]}")
            if not await witness.drain():
                report.wrong.append("it does not become quiet")
            report.moved = await network.moved()
            report.wrong += [f"{name} has ended" for name, each in machines.all.items() if not each.live.is_running]
            report.verdict = judge(witness.recorder.records)
            if not report.verdict.clean:
                report.wrong.append(explain(report.verdict, witness.recorder.records))
    finally:
        await switch.stop()
    return report
