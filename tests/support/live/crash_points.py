"""`kill -9` at every step of the three operations, at every broker that takes part, before and after its commit.

A chain of four broker processes under load. For each point a broker is told to kill itself when a certain message of
the operation is written to its disk; the operation is asked for, the broker dies, and is started again at once. Then
the operation must end, done or refused, and the tree must be whole: the new one or the old one. In the end the clients'
trace is judged. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from pleach.core.overlay.plans import Plan, SwapStep, Topology, add_broker, remove_broker
from pleach.server.crash_hook import VARIABLE
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Fleet, Witness

LINKS = [("a", "b"), ("b", "c"), ("c", "d")]
EVENTS_PER_SECOND = 100
KILL_SECONDS_MAX = 30.0
STEPS = {
    "swap": {
        "a": ("RequestSwap", "LockAck", "Swap", "Close"),
        "b": ("Lock", "LockAck", "Swap", "Close"),
        "c": ("Lock", "Swap", "Open", "Close", "Close#2"),
    },
    "add": {"joiner": ("RequestAdd", "ConnectAck"), "neighbour": ("Connect",)},
    "remove": {
        "leaver": ("RequestRemove", "RemoveAck", "CloseAB", "Farewell", "Farewell#2"),
        "heir": ("RemoveReq", "Handover", "ClientLeft", "ClientLeft#2", "Left"),
    },
}


class Point(NamedTuple):
    operation: str
    role: str
    message: str
    when: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.role} dies {self.when} the commit of {self.message}"


POINTS = [
    Point(operation, role, message, when)
    for operation, roles in STEPS.items()
    for role, messages in roles.items()
    for message in messages
    for when in ("before", "after")
]


@dataclass
class Report:
    verdict: Verdict
    quiet: bool
    done: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict.clean and self.quiet and not self.wrong

    def lines(self) -> list[str]:
        found = ", ".join(f"{rule} {n}" for rule, n in self.verdict.to_dict()["found"].items())
        return [
            f"{self.done + self.refused} crash points: {self.done} operations done, {self.refused} refused",
            f"events: {self.verdict.counts.published} published, {self.verdict.counts.deliveries} delivered",
            f"verdict: {self.verdict.outcome}; {found}",
            *self.wrong,
        ]


class Crashes:
    def __init__(self, fleet: Fleet, witness: Witness, rng: Random) -> None:
        self._fleet = fleet
        self._witness = witness
        self._rng = rng
        self._count = 0
        self._guests: list[str] = []
        self.done = 0
        self.refused = 0
        self.wrong: list[str] = []

    async def at(self, point: Point) -> None:
        tree = await self._fleet.topology()
        plan, roles = await self._prepared(point.operation, tree)
        victim = roles[point.role]
        await self._fleet.stop(victim)
        await self._fleet.start(victim, {VARIABLE: f"{point.message}:{point.when}"})
        await self._fleet.until_ready()
        asked = asyncio.create_task(self._fleet.apply(plan))
        try:
            async with asyncio.timeout(KILL_SECONDS_MAX):  # it may come after the operation has ended elsewhere
                await self._fleet.ended(victim)
        except TimeoutError:
            self.wrong.append(f"{point}: {victim} was not killed; {(await asked).lines()}")
            return
        await self._fleet.start(victim)
        outcome = await asked
        self.done += outcome.complete
        self.refused += not outcome.complete
        await self._check(point, plan, is_done=outcome.complete)
        for guest in self._guests:
            await self._witness.part_with(guest)
        self._guests.clear()

    async def _check(self, point: Point, plan: Plan, *, is_done: bool) -> None:
        expected = plan.result if is_done else plan.start
        for name in sorted({*plan.start.brokers} - {*expected.brokers}):
            await self._fleet.see_off(name)
        for name in sorted({*plan.result.brokers} - {*expected.brokers}):
            await self._fleet.stop(name)
        try:
            found = await self._fleet.topology()
            await self._fleet.until_ready()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
            self.wrong.append(f"{point}: {type(error).__name__} {error}")
            return
        if found != expected:
            self.wrong.append(f"{point}: {expected} was expected, {found} is there")

    async def _prepared(self, operation: str, tree: Topology) -> tuple[Plan, dict[str, str]]:
        """A plan of one step, and who plays which part in it."""
        rng = self._rng
        match operation:
            case "swap":
                rows = [(a, b, c) for b in tree.brokers for a in tree.neighbours(b) for c in tree.neighbours(b)]
                a, b, c = rng.choice([row for row in rows if row[0] != row[2]])
                return Plan.of(tree, [SwapStep(a, b, c)]), {"a": a, "b": b, "c": c}
            case "add":
                name, to = await self._newcomer(), rng.choice(tree.brokers)
                return add_broker(tree, name, to=to), {"joiner": name, "neighbour": to}
            case _:
                leaver = rng.choice([name for name in tree.brokers if tree.is_leaf(name)])
                for _ in range(2):  # whom it sends elsewhere
                    self._count += 1
                    self._guests.append(f"guest{self._count}")
                    address = self._fleet.client_address(leaver)
                    await self._witness.connect(self._guests[-1], address, subscribe="n > 0")
                return remove_broker(tree, leaver), {"leaver": leaver, "heir": tree.neighbours(leaver)[0]}

    async def _newcomer(self) -> str:
        self._count += 1
        name = f"n{self._count}"
        await self._fleet.start(name)
        return name


def chosen(count: int, seed: int) -> list[Point]:
    """All points in turn, brokers added between removals, so that the tree stays about as large as it was."""
    rng = Random(seed)
    by_operation = {name: [point for point in POINTS if point.operation == name] for name in STEPS}
    for points in by_operation.values():
        rng.shuffle(points)
    order = ["swap", "add", "remove", "swap"]
    taken = dict.fromkeys(STEPS, 0)
    found = []
    for number in range(count):
        operation = order[number % len(order)]
        points = by_operation[operation]
        found.append(points[taken[operation] % len(points)])
        taken[operation] += 1
    return found


async def crash_points(points: list[Point], seed: int, place: Path, *, say=lambda _line: None) -> Report:
    async with Fleet(place) as fleet, Witness(f"crash-points-{seed}") as witness:
        await fleet.grow(LINKS)
        for name in ("a", "d"):
            await witness.connect(f"s-{name}", fleet.client_address(name), subscribe="n > 0")
            await witness.connect(f"p-{name}", fleet.client_address(name))
            witness.load(f"p-{name}", EVENTS_PER_SECOND / 2, of=name)
        crashes = Crashes(fleet, witness, Random(seed))
        for number, point in enumerate(points, start=1):
            say(f"{number}/{len(points)} {point}")
            await crashes.at(point)
        quiet = await witness.drain()
        verdict = judge(witness.recorder.records)
        report = Report(verdict, quiet, crashes.done, crashes.refused, crashes.wrong)
        if not verdict.clean:
            report.wrong.append(str(explain(verdict, witness.recorder.records)))
        return report
