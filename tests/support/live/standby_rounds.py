"""Machines that are destroyed under load, one after the other: brokers come back elsewhere, with everything they had.

Nine brokers in a tree over three zones, with leases and [improve]; clients that publish and answer at each of them,
some with a state on disk, and some that move. In every round a machine is destroyed (`kill -9` of whatever runs there,
its folder deleted), and a new one is added, so that there are always as many. Told per round: which brokers died, and
after how many seconds events came across the gap again, and to the dead brokers' own clients. At the end of each
network (some rounds) the trace is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pleach.core.events.event import EventId
from pleach.core.overlay.plans import Topology
from pleach.errors import PleachError
from pleach.operate.broker_move import move_broker
from pleach.operate.move import ClientMove
from pleach.operate.operation import fresh_name
from pleach.operate.survey import Survey
from pleach.trace import RecordKind, Rule, Verdict, explain, judge
from support.live.fleet import Witness
from support.live.machines import Machines, standby_flags

LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("c", "f"), ("f", "g"), ("a", "h"), ("d", "i"))
ZONES = {
    "a": "east",
    "h": "east",
    "b": "east",
    "e": "north",
    "c": "north",
    "f": "north",
    "g": "west",
    "d": "west",
    "i": "west",
}
AFTER = 1.0  # seconds of silence
ACROSS_SECONDS_MAX = AFTER + 3.0
BACK_SECONDS_MAX = 5.0
WHOLE_SECONDS_MAX = 120.0
POLL_SECONDS = 0.2
WARM_UP = 1.0
ROUNDS_PER_NETWORK = 10
ANSWERED = 20  # one event in so many
MOVERS = 6
MOVE_SECONDS_MAX = 30.0
MOVES_AT_DEATH = 2  # that begin just before
LEASES = ("--stabilise=leases", "--refresh=2.0", "--period=6.0")
IMPROVE = {"PLEACH_IMPROVE_EVERY": "2.0", "PLEACH_IMPROVE_WINDOW": "10.0"}


@dataclass(frozen=True)
class Stage:
    """`per_second`: events of all publishers together. `movers`: clients that move."""

    per_second: float = 1_000.0
    movers: int = MOVERS
    links: Sequence[tuple[str, str]] = LINKS
    hosts: int = 0  # machines without a broker, from the beginning


@dataclass(frozen=True)
class Death:
    """One broker that ran on a machine that was destroyed."""

    broker: str
    machine: str
    neighbours: int
    across: float  # seconds until the last of those behind the gap got something from beyond it
    back: float  # … until the last of the dead broker's clients got something
    serves: float  # … until it answered operators, ready

    def __str__(self) -> str:
        return (
            f"{self.broker} on {self.machine} ({self.neighbours} neighbours): across the gap after {self.across:.2f} s,"
            f" its clients after {self.back:.2f} s, ready after {self.serves:.2f} s"
        )

    @property
    def is_late(self) -> bool:
        return self.across > ACROSS_SECONDS_MAX or self.back > BACK_SECONDS_MAX


@dataclass
class Report:
    """`whole`: seconds of each round until all brokers had copies again."""

    deaths: list[Death] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    moves: Counter[str] = field(default_factory=Counter)
    verdicts: list[Verdict] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0  # under load

    @property
    def is_good(self) -> bool:
        return not self.wrong and all(verdict.clean for verdict in self.verdicts)

    @property
    def late(self) -> list[Death]:
        return [death for death in self.deaths if death.is_late]

    def figures(self) -> dict[str, Any]:
        counts = [verdict.counts for verdict in self.verdicts]
        published = sum(each.published for each in counts)
        return {
            "rounds": len(self.whole),
            "brokers_lost": len(self.deaths),
            "across_seconds": spread([death.across for death in self.deaths]),
            "back_seconds": spread([death.back for death in self.deaths]),
            "ready_seconds": spread([death.serves for death in self.deaths]),
            "whole_seconds": spread(self.whole),
            "bars": {"across": ACROSS_SECONDS_MAX, "back": BACK_SECONDS_MAX, "late": len(self.late)},
            "published": published,
            "published_per_second": round(published / self.seconds, 1) if self.seconds else 0.0,
            "delivered": sum(each.deliveries for each in counts),
            "moves": dict(sorted(self.moves.items())),
            "found": {rule.value: sum(verdict.count(rule) for verdict in self.verdicts) for rule in Rule},
            "wrong": self.wrong,
            "deaths": [asdict(death) for death in self.deaths],
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    ranked = sorted(values)
    if not ranked:
        return {}
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ranked[min(len(ranked) - 1, int(share * len(ranked)))], 3) for name, share in at.items()}


class Network:
    """One tree of processes, its clients, and what became of them."""

    def __init__(self, machines: Machines, witness: Witness, rng: Random, report: Report, stage: Stage) -> None:
        self._machines = machines
        self._witness = witness
        self._rng = rng
        self._report = report
        self._fresh = 0
        self._moving: set[asyncio.Task[None]] = set()
        self.brokers = sorted({name for link in stage.links for name in link})

    # Clients -------------------------------------------------------------------------------------------------

    async def populate(self, stage: Stage, states: Path) -> None:
        """At each broker one that publishes its topic, and one that wants those of some others, and answers.

        Every second one has its state on disk.
        """
        for number, broker in enumerate(self.brokers):
            for name in (f"p{broker}", f"s{broker}"):
                state = states / name if number % 2 else None
                await self._witness.connect(name, self._addresses(broker), state_dir=state)
            topics = ", ".join(f"'{prefix}{each}'" for each in self.wanted_at(broker) for prefix in ("", "answer-"))
            subscriber = self._witness.clients[f"s{broker}"]
            await subscriber.subscribe(f"topic IN ({topics})", name="s", callback=self._answering(broker))
        for number in range(stage.movers):
            broker = self.brokers[number % len(self.brokers)]
            wanted = f"topic = '{self.brokers[-1 - number]}'"
            await self._witness.connect(f"m{number}", self._addresses(broker), subscribe=wanted)
        for broker in self.brokers:
            self._witness.load(f"p{broker}", stage.per_second / len(self.brokers), topic=broker)

    def wanted_at(self, broker: str) -> list[str]:
        """The brokers whose topics are wanted there: nearly all pairs are far from each other."""
        here, count = self.brokers.index(broker), len(self.brokers)
        return sorted({self.brokers[(here + step) % count] for step in (2, 3, 5)} - {broker})

    def _addresses(self, broker: str) -> str:
        """Its broker, and for half of the clients another one: the rest ask where their broker has told them to."""
        here = self.brokers.index(broker)
        known = [broker, *([self.brokers[here - 1]] if here % 2 else [])]
        return ",".join(self._machines.client_address(each).removeprefix("pleach://") for each in known)

    def _answering(self, broker: str) -> Callable[[Any], Any]:
        async def answer(event: Any) -> None:
            if event.attributes.get("n", 1) % ANSWERED == 0:
                future = await self._witness.clients[f"s{broker}"].publish_windowed({"topic": f"answer-{broker}"})
                future.add_done_callback(lambda done: done.cancelled() or done.exception())

        return answer

    async def keep_moving(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0.2, 1.0))
            with contextlib.suppress(PleachError):
                await self._move_one(await self._machines.survey())

    async def _move_one(self, found: Survey) -> None:
        movers = [name for name in self._witness.clients if name.startswith("m")]
        if not movers:
            return
        client, to = self._rng.choice(movers), self._rng.choice(self.brokers)
        try:
            moving = ClientMove.planned(found, client, to, fresh_name())
        except PleachError:  # a broker is away
            return
        state, _reason = await moving.carry_out(seconds_max=MOVE_SECONDS_MAX)
        self._report.moves[state.value] += 1

    def _move_soon(self, found: Survey) -> None:
        task = asyncio.create_task(self._move_one(found))
        self._moving.add(task)
        task.add_done_callback(self._moved)

    def _moved(self, task: asyncio.Task[None]) -> None:
        self._moving.discard(task)
        if not task.cancelled() and isinstance(task.exception(), PleachError):
            self._report.moves["not known"] += 1

    # Rounds --------------------------------------------------------------------------------------------------

    async def round(self) -> None:
        """Destroy a machine where a broker runs, and wait until all have copies again; then add another machine."""
        found = await self.until_whole()
        victim = self._rng.choice(self.brokers)
        machine = self._machines.machine_of(found.admin[victim])
        dying = [each for each in self.brokers if self._machines.machine_of(found.admin[each]) == machine]
        for _ in range(MOVES_AT_DEATH):
            self._move_soon(found)
        await asyncio.sleep(self._rng.uniform(0.0, 0.05))
        self._note(machine, f"destroyed, with {', '.join(dying)}")
        died_at = time.monotonic()
        await self._machines.destroy(machine)
        ready = await self._until_ready(dying, died_at)
        await self._until_across(dying, found, died_at)
        self._report.deaths += [self._death(each, machine, found, died_at, ready.get(each, math.inf)) for each in dying]
        fresh = await self.add_machine()
        await self.until_whole()
        self._report.whole.append(time.monotonic() - died_at)
        await self._spread(fresh)
        await asyncio.sleep(WARM_UP)

    async def _spread(self, fresh: str) -> None:
        """Move a broker of a machine that has several to one that has none, as an operator would."""
        found = await self._machines.survey()
        homes = Counter(self._machines.machine_of(found.admin[broker]) for broker in self.brokers)
        crowded = [each for each in self.brokers if homes[self._machines.machine_of(found.admin[each])] > 1]
        if not crowded or homes[fresh]:
            return
        broker = self._rng.choice(crowded)
        try:
            to = self._machines.all[fresh].ports["peer"]
            end = await move_broker(found, broker, to, seconds_max=MOVE_SECONDS_MAX)
        except PleachError as error:
            self._report.moves[f"of brokers: {error}"] += 1
        else:
            self._report.moves["of brokers" + (f": {end.reason}" if end.reason else "")] += 1

    async def add_machine(self) -> str:
        self._fresh += 1
        name = f"x{self._fresh}"
        await self._machines.add_host(name, self._rng.choice(sorted({*ZONES.values()})))
        self._note(name, "added")
        return name

    async def until_whole(self) -> Survey:
        return await self._machines.until_whole(self.brokers)

    async def _until_ready(self, dying: Sequence[str], died_at: float) -> dict[str, float]:
        """After how many seconds each answers operators again, with all its links."""
        ready: dict[str, float] = {}
        deadline = died_at + WHOLE_SECONDS_MAX
        while len(ready) < len(dying) and time.monotonic() < deadline:
            found = await self._machines.survey()
            for broker in dying:
                if broker in found.found and found.found[broker].ready:
                    ready.setdefault(broker, time.monotonic() - died_at)
            await asyncio.sleep(POLL_SECONDS / 2)
        return ready

    async def _until_across(self, dying: Sequence[str], before: Survey, died_at: float) -> None:
        """Events come across all gaps again. If they do not in time, the figures say so."""
        deadline = time.monotonic() + WHOLE_SECONDS_MAX / 2
        while any(math.inf in self._gaps(each, before, died_at) for each in dying):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(POLL_SECONDS)

    # Figures -------------------------------------------------------------------------------------------------

    def _death(self, broker: str, machine: str, before: Survey, died_at: float, ready: float) -> Death:
        neighbours = len(before.found[broker].neighbours)
        return Death(broker, machine, neighbours, *self._gaps(broker, before, died_at), serves=ready)

    def _gaps(self, victim: str, before: Survey, died_at: float) -> tuple[float, float]:
        """Until the last client across the gap, and the last of the dead broker's own, got what was published after."""
        first = self._first_after(died_at)
        tree = before.topology()
        homes = {client: broker for broker, status in before.found.items() for client in status.clients}
        across, back = [0.0], [0.0]
        for there in self.brokers:
            for here in self.wanted_at(there):
                pair = (f"s{there}", f"p{here}")
                path = _path(tree, homes, *pair)
                if victim in path[1:-1]:
                    across.append(first.get(pair, math.inf))
                elif victim in path[-1:]:
                    back.append(first.get(pair, math.inf))
        return max(across), max(back)

    def _first_after(self, died_at: float) -> dict[tuple[str, str], float]:
        """By subscriber and publisher: after how many seconds the first event came that was published since."""
        records = self._witness.recorder.records
        begin = len(records)
        while begin and records[begin - 1].at >= died_at:
            begin -= 1
        new: set[str] = set()
        first: dict[tuple[str, str], float] = {}
        for record in records[begin:]:
            if record.kind == RecordKind.PUBLISH:
                new.add(record.event)
            elif record.kind == RecordKind.DELIVER and record.event in new:
                publisher = EventId.parse(record.event).publisher
                first.setdefault((record.node, publisher), record.at - died_at)
        return first

    def _note(self, node: str, detail: str) -> None:
        self._witness.recorder.add(RecordKind.STATE, at=time.monotonic(), node=node, detail=detail)


def _path(tree: Topology, homes: dict[str, str], subscriber: str, publisher: str) -> tuple[str, ...]:
    """From the publisher's broker to the subscriber's, as they were."""
    here, there = homes.get(publisher), homes.get(subscriber)
    return tuple(tree.path(here, there)) if here and there else ()


async def one_network(
    rounds: int, seed: int, place: Path, stage: Stage, report: Report, *, say: Callable[[str], None] = lambda _: None
) -> None:
    """Some rounds, and the verdict on them."""
    settings = (*LEASES, *standby_flags(AFTER))
    async with Machines(place, *settings, **IMPROVE) as machines, Witness(f"standby-{seed}") as witness:
        network = Network(machines, witness, Random(seed), report, stage)
        await machines.grow(stage.links, ZONES)
        for _ in range(stage.hosts):
            await network.add_machine()
        await network.until_whole()
        began = time.monotonic()
        await network.populate(stage, place / "clients")
        moving = asyncio.create_task(network.keep_moving())
        try:
            for number in range(1, rounds + 1):
                known = len(report.deaths)
                await network.round()
                for death in report.deaths[known:]:
                    say(f"  seed {seed}, {number}/{rounds}: {death}{' LATE' if death.is_late else ''}")
        except (AssertionError, PleachError) as error:
            report.wrong.append(f"seed {seed}: {error}")
        finally:
            moving.cancel()
        report.seconds += time.monotonic() - began
        is_quiet = await witness.drain()
        if not is_quiet:
            report.wrong.append(f"seed {seed}: it does not become quiet")
        verdict = judge(witness.recorder.records)
        report.verdicts.append(verdict)
        if not verdict.clean:
            report.wrong.append(f"seed {seed}: {explain(verdict, witness.recorder.records)}")
