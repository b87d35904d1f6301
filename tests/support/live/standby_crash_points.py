"""Machines destroyed at messages: of swap, exchange, movement and membership, of replication, and of promotion.

Five brokers in a tree, machines without a broker, and load. For each point a process is told to kill a machine when it
comes to a certain message: the broker's own, its standby's, or a neighbour's; the machine's folder is deleted, and
another machine is added. An operation that was under way must end, done or refused; the tree must be whole, and every
broker have its copies again. For messages of a promotion a machine is stopped (`SIGSTOP`), and goes on later, unless it
is the one that is destroyed: with two copies one machine may be lost at a time. In the end the trace is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pleach.core.overlay.choice import Circumstances, planned_exchange
from pleach.core.overlay.plans import Plan, SwapStep, Topology, add_broker, remove_broker
from pleach.errors import PleachError
from pleach.operate.move import ClientMove
from pleach.operate.operation import fresh_name
from pleach.operate.survey import Survey
from pleach.server.standby.registers import display
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Witness
from support.live.machines import Machines, standby_flags

LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"))
ZONES = {"a": "east", "b": "east", "c": "north", "e": "north", "d": "west"}
HOSTS = 3  # machines without a broker
AFTER = 1.0
EVENTS_PER_SECOND = 100.0
KILL_SECONDS_MAX = 15.0
STOPPED_SECONDS = 3 * AFTER  # of a primary that others shall take for dead
MOVE_SECONDS_MAX = 60.0
MOVERS = 2

MESSAGES = {
    "swap": ("RequestSwap", "Lock", "LockAck", "Swap", "Open", "Close", "Close#2"),
    "exchange": ("RequestExchange", "LockCycle", "Begin", "Separator", "EndOfRelay", "Unlock", "RelayTables"),
    "movement": ("RequestMove", "Negotiate", "Approve", "MoveState", "MoveAck", "MoveCommit"),
    "add": ("RequestAdd", "Connect", "ConnectAck"),
    "remove": ("RequestRemove", "RemoveReq", "RemoveAck", "Handover", "CloseAB", "Farewell", "Left"),
    "replication": ("standby.Append", "standby.Appended", "standby.Append#7", "standby.Appended#7", "standby.Here"),
    "fill": ("standby.FillBegin", "standby.FillPart", "standby.FillEnd", "standby.Append#3"),
    "promotion": (
        "standby.Ask",
        "standby.Unheard",
        "standby.Prepare",
        "standby.Promise",
        "standby.Propose",
        "standby.Accepted",
        "standby.ViewInstalled",
    ),
}
VICTIMS = {**dict.fromkeys(MESSAGES, ("broker", "standby", "neighbour")), "fill": ("learner",)}
WHENS = ("before", "after", "soon")


class Point(NamedTuple):
    family: str
    message: str
    when: str
    victim: str

    def __str__(self) -> str:
        return f"{self.family}: the {self.victim}'s machine is destroyed {self.when} {self.message}"


POINTS = [
    Point(family, message, when, victim)
    for family, messages in MESSAGES.items()
    for message in messages
    for when in WHENS
    for victim in VICTIMS[family]
]


class Operation(NamedTuple):
    """Something that is asked for. `brokers`: who take part. `carry_out`: returns whether it was done.

    `at_stake`: whose machines, copies and neighbours may be destroyed, if not all: a newcomer has no copy yet.
    """

    brokers: Sequence[str]
    carry_out: Callable[[], Coroutine[Any, Any, bool]]
    plan: Plan | None = None
    at_stake: Sequence[str] = ()


@dataclass
class Report:
    verdict: Verdict | None = None
    hit: Counter[str] = field(default_factory=Counter)  # points that were come to, by family
    missed: Counter[str] = field(default_factory=Counter)  # … and that were not, by point
    done: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.wrong and self.verdict is not None and self.verdict.clean

    def lines(self) -> list[str]:
        told = [
            f"{self.hit.total()} machines destroyed at messages: {dict(sorted(self.hit.items()))}",
            f"operations: {self.done} done, {self.refused} refused",
            f"not come to: {dict(sorted(self.missed.items()))}",
        ]
        if self.verdict is not None:
            found = ", ".join(f"{rule} {n}" for rule, n in self.verdict.to_dict()["found"].items())
            counts = self.verdict.counts
            told.append(f"{counts.published:,} published, {counts.deliveries:,} delivered; {found}")
        return [*told, *self.wrong]


class Crashes:
    def __init__(self, machines: Machines, witness: Witness, rng: Random, moments: Path, report: Report) -> None:
        self._machines = machines
        self._witness = witness
        self._rng = rng
        self._moments = moments
        self._report = report
        self._made = HOSTS
        self._guests: list[str] = []

    async def at(self, point: Point) -> None:
        found = await self._machines.until_settled(seconds=AFTER)
        tree = found.topology()
        match point.family:
            case "replication":
                await self._during(point, found, Operation([self._rng.choice(tree.brokers)], self._nothing))
            case "promotion":
                await self._promotion(point, found, self._rng.choice(tree.brokers))
            case "fill":
                await self._fill(point, found, self._rng.choice(tree.brokers))
            case _:
                await self._during(point, found, await self._operation(point.family, tree, found))
        await self._part_with_guests()

    async def _nothing(self) -> bool:
        await asyncio.sleep(1.0)
        return True

    # The kinds of points -------------------------------------------------------------------------------------

    async def _during(self, point: Point, found: Survey, operation: Operation) -> None:
        """A message of an operation, at one of the brokers that take part, or of what is copied meanwhile."""
        broker = self._rng.choice([each for each in operation.brokers if each in found.found])  # no newcomer
        at_stake = operation.at_stake or [broker]
        victim = self._victim(point, found, self._rng.choice(at_stake))
        at_copy = point.message in ("standby.Append", "standby.Append#7")
        copy = self._machines.copy_of(found, broker)
        armed = [(copy, copy)] if at_copy else [(self._home(found, each), each) for each in operation.brokers]
        self._arm(armed, point, victim)
        asked = asyncio.create_task(operation.carry_out())
        is_hit = await self._is_hit(victim)
        self._disarm()
        if is_hit:
            await self._bury(victim)
        is_done = await asked
        self._report.done += is_done
        self._report.refused += not is_done
        self._note(point, is_hit=is_hit)
        await self._check(point, operation, is_done=is_done)

    async def _promotion(self, point: Point, found: Survey, broker: str) -> None:
        """The primary's machine stops for a while; whoever wants its place, or is asked, comes to the message."""
        home = self._home(found, broker)
        others = [machine for machine in self._machines.all if machine != home]
        victim = self._victim(point, found, broker)
        self._arm([(machine, machine) for machine in others], point, victim)
        self._signal(home, signal.SIGSTOP)
        try:
            is_hit = await self._is_hit(victim)
            if is_hit and victim == home:
                await self._bury(home)
            else:
                await asyncio.sleep(STOPPED_SECONDS)
        finally:
            if home in self._machines.all:
                self._signal(home, signal.SIGCONT)
        self._disarm()
        if is_hit and victim != home:
            await self._bury(victim)
        self._note(point, is_hit=is_hit)

    async def _fill(self, point: Point, found: Survey, broker: str) -> None:
        """A copy is lost; whoever is to become one instead is lost, too, before it is one."""
        home, copy = self._home(found, broker), self._machines.copy_of(found, broker)
        lost = [copy]  # two may come to the message before the others are told that it is over
        for machine in [each for each in self._machines.all if each not in (home, copy)]:
            if all(self._may_be_lost_with(found, each, machine) for each in lost):
                lost.append(machine)
        others = lost[1:]
        if not others:
            self._note(point, is_hit=False)
            return
        for machine in others:
            self._arm([(machine, machine)], point, machine)
        await self._machines.destroy(copy)
        is_hit = await self._is_hit(*others)
        self._disarm()
        await self._add_machine()
        for machine in [each for each in others if not self._machines.all[each].live.is_running]:
            await self._bury(machine)
        self._note(point, is_hit=is_hit)

    def _may_be_lost_with(self, found: Survey, one: str, other: str) -> bool:
        """Whether no view has both machines: else two of its three members would be lost at once."""
        for status in found.found.values():
            standby = status.raw["standby"]
            members = {display(each) for each in (standby["machine"], *standby["copies"], *standby["witnesses"])}
            if {one, other} <= members:
                return False
        return True

    # Parts ---------------------------------------------------------------------------------------------------

    def _home(self, found: Survey, broker: str) -> str:
        """A newcomer is where it was started."""
        return self._machines.machine_of(found.admin[broker]) if broker in found.admin else broker

    def _victim(self, point: Point, found: Survey, broker: str) -> str:
        match point.victim:
            case "broker":
                return self._home(found, broker)
            case "standby":
                return self._machines.copy_of(found, broker)
            case _:
                neighbours = sorted(found.found[broker].neighbours) or [broker]
                return self._home(found, self._rng.choice(neighbours))

    def _group(self, machine: str) -> int:
        return self._machines.all[machine].live.group

    def _arm(self, processes: Sequence[tuple[str, str]], point: Point, victim: str) -> None:
        """Whichever process of these machines comes to the message first kills the victim."""
        lines: dict[str, list[str]] = {}
        for machine, process in processes:
            line = f"{process} {point.message}:{point.when} {self._group(victim)}\n"
            lines.setdefault(machine, []).append(line)
        for machine, told in lines.items():
            unfinished = self._moments / f"{machine}.new"
            unfinished.write_text("".join(told))
            unfinished.rename(self._moments / machine)

    def _disarm(self) -> None:
        for file in self._moments.iterdir():
            file.unlink(missing_ok=True)

    async def _is_hit(self, *victims: str) -> bool:
        """Whether one of these machines dies in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KILL_SECONDS_MAX
        while all(self._machines.all[victim].live.is_running for victim in victims):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    def _signal(self, machine: str, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group(machine), number)

    async def _bury(self, machine: str) -> None:
        """Delete its folder, and add another machine."""
        await self._machines.destroy(machine)
        await self._add_machine()

    async def _add_machine(self) -> None:
        self._made += 1
        await self._machines.add_host(f"x{self._made}", self._rng.choice(sorted({*ZONES.values()})))

    def _note(self, point: Point, *, is_hit: bool) -> None:
        if is_hit:
            self._report.hit[point.family] += 1
        else:
            self._report.missed[f"{point.family}/{point.message}"] += 1

    async def _whole(self) -> Topology:
        found = await self._machines.until_whole()
        return found.topology()

    async def _check(self, point: Point, operation: Operation, *, is_done: bool) -> None:
        if operation.plan is None:
            return
        expected = operation.plan.result if is_done else operation.plan.start
        try:
            tree = await self._whole()
        except (AssertionError, PleachError) as error:
            self._report.wrong.append(f"{point}: {error}")
            raise
        if tree != expected:
            self._report.wrong.append(f"{point}: {expected} was expected, {tree} is there")

    # Operations ----------------------------------------------------------------------------------------------

    async def _operation(self, family: str, tree: Topology, found: Survey) -> Operation:
        rng = self._rng
        match family:
            case "swap":
                rows = [(a, b, c) for b in tree.brokers for a in tree.neighbours(b) for c in tree.neighbours(b)]
                a, b, c = rng.choice([row for row in rows if row[0] != row[2]])
                return self._planned(Plan.of(tree, [SwapStep(a, b, c)]), [a, b, c])
            case "exchange":
                return self._exchange(tree)
            case "movement":
                return self._movement(tree, found)
            case "add":
                return await self._add(tree)
            case _:
                return await self._remove(tree)

    def _planned(self, plan: Plan, brokers: Sequence[str], at_stake: Sequence[str] = ()) -> Operation:
        async def carry_out() -> bool:
            return (await self._machines.apply(plan)).complete

        return Operation(brokers, carry_out, plan, at_stake)

    def _exchange(self, tree: Topology) -> Operation:
        pairs = [(a, b) for a in tree.brokers for b in tree.brokers if a < b and len(tree.path(a, b)) > 2]
        added = self._rng.choice(pairs)
        path = tree.path(*added)
        at = self._rng.randrange(len(path) - 1)
        removed = (path[at], path[at + 1])
        plan = planned_exchange(
            tree, remove=removed, add=added, protocol="advanced-coordinated", circumstances=Circumstances()
        )
        return self._planned(plan, path)

    def _movement(self, tree: Topology, found: Survey) -> Operation:
        client = self._rng.choice([name for name in self._witness.clients if name.startswith("m")])
        here = next(broker for broker, status in found.found.items() if client in status.clients)
        to = self._rng.choice([broker for broker in tree.brokers if broker != here])
        moving = ClientMove.planned(found, client, to, fresh_name())

        async def carry_out() -> bool:
            state, _reason = await moving.carry_out(seconds_max=MOVE_SECONDS_MAX)
            return state.value == "done"

        return Operation(tree.path(here, to), carry_out)

    async def _add(self, tree: Topology) -> Operation:
        self._made += 1
        name, to = f"n{self._made}", self._rng.choice(tree.brokers)
        await self._machines.add_broker(name)
        return self._planned(add_broker(tree, name, to=to), [name, to], at_stake=[to])

    async def _remove(self, tree: Topology) -> Operation:
        leaver = self._rng.choice([name for name in tree.brokers if tree.is_leaf(name)])
        for _ in range(2):  # whom it sends elsewhere
            self._made += 1
            self._guests.append(f"guest{self._made}")
            address = await self._machines.present_client_address(leaver)
            await self._witness.connect(self._guests[-1], address, subscribe="n > 0")
        return self._planned(remove_broker(tree, leaver), [leaver, tree.neighbours(leaver)[0]])

    async def _part_with_guests(self) -> None:
        for guest in self._guests:
            await self._witness.part_with(guest)
        self._guests.clear()


def chosen(count: int, seed: int) -> list[Point]:
    """All families in turn, brokers added between removals, so that the tree stays about as large as it was."""
    rng = Random(seed)
    left: dict[str, list[Point]] = {}
    order = ("swap", "exchange", "movement", "add", "replication", "promotion", "remove", "fill")
    found = []
    for number in range(count):
        family = order[number % len(order)]
        if not left.get(family):
            left[family] = [point for point in POINTS if point.family == family]
            rng.shuffle(left[family])
        found.append(left[family].pop())
    return found


async def crash_points(points: Sequence[Point], seed: int, place: Path, *, say: Callable[[str], None]) -> Report:
    report = Report()
    moments = place / "moments"
    moments.mkdir(parents=True, exist_ok=True)
    machines = Machines(place, *standby_flags(AFTER), "--welcome=*")
    machines.moments = moments
    async with machines, Witness(f"standby-crash-points-{seed}") as witness:
        await machines.grow(LINKS, ZONES)
        for number in range(1, HOSTS + 1):
            await machines.add_host(f"x{number}", "north")
        await machines.until_whole()
        for name in ("a", "d"):
            addresses = ",".join(machines.client_address(each).removeprefix("pleach://") for each in (name, "b"))
            await witness.connect(f"s-{name}", addresses, subscribe="n > 0")
            await witness.connect(f"p-{name}", addresses)
            witness.load(f"p-{name}", EVENTS_PER_SECOND / 2, of=name)
        for number in range(MOVERS):
            await witness.connect(f"m{number}", machines.client_address("bc"[number]), subscribe="n > 0")
        crashes = Crashes(machines, witness, Random(seed), moments, report)
        try:
            for number, point in enumerate(points, start=1):
                say(f"{number}/{len(points)} {point}")
                await crashes.at(point)
        except (AssertionError, PleachError) as error:
            report.wrong.append(f"{point}: {error}")
        if not await witness.drain():
            report.wrong.append("it does not become quiet")
        report.verdict = judge(witness.recorder.records)
        if not report.verdict.clean:
            report.wrong.append(explain(report.verdict, witness.recorder.records))
        return report
