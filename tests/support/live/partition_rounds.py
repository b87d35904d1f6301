"""Partitions of a network with standbys, on real processes, and their cure: nothing that was acknowledged is lost.

Five brokers in a tree, and two machines without any; all connections pass a switch (harness/switch.py), which holds
what is sent from one side to another, as a network does that loses packets. Clients are on the side of their broker,
or, where a broker is cut off alone, on the other one: those find it where it was promoted. They publish all the time.
Told per partition: what was cut, for how long, how soon after the cure there was one tree and all was delivered that
had been published before, and what was not acknowledged meanwhile. And for how long the machine that runs all of this
has kept the test itself from running since the cure: a partition that is late on a busy machine may be so for that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pleach.errors import PleachError
from pleach.harness.switch import Switch
from pleach.operate.survey import Survey
from pleach.trace import Record, Recorder, RecordKind, Rule, Verdict, explain, judge
from support.live.fleet import Witness
from support.live.machines import Machines, missing, standby_flags
from support.live.standby_rounds import spread

LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"))
BROKERS = ("a", "b", "c", "d", "e")
HOSTS = ("x", "y")
ZONES = {"a": "east", "b": "east", "x": "east", "c": "north", "e": "north", "d": "west", "y": "west"}
AFTER = 1.0
CURED_SECONDS_MAX = 5.0
CURED_SECONDS_TRIED = 120.0
POLL_SECONDS = 0.1
STALL_SECONDS_TOLD = 0.1
CALM_SECONDS = 2.0  # before each partition
DURATIONS = (1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 60.0)
EVENTS_PER_SECOND = 300.0
EXIT_FENCED = 71


class Kind(NamedTuple):
    """`holds`: given the network, who and what is cut off: (sender, receiver) pairs that are held."""

    name: str
    holds: Callable[[Network, Survey], tuple[str, list[tuple[str, str]]]]


@dataclass(frozen=True)
class Partition:
    kind: str
    told: str
    seconds: float
    tree: float  # seconds after the cure until there was one tree, and each broker had its copies
    delivered: float  # … until all was delivered that had been published before the cure
    unacknowledged: int  # at the cure, of what was published since the cut
    published: int  # since the cut, until the cure
    stalled: float  # the longest time since the cure in which this process did not run
    cured: str  # the time of day, as in the logs
    refused: dict[str, int] = field(default_factory=dict)  # by reason

    def __str__(self) -> str:
        refused = f", refused: {self.refused}" if self.refused else ""
        stalled = f", this process stalled for {self.stalled:.2f} s" if self.stalled > STALL_SECONDS_TOLD else ""
        return (
            f"{self.kind} ({self.told}) for {self.seconds:g} s, until {self.cured}: one tree after {self.tree:.2f} s,"
            f" all delivered after {self.delivered:.2f} s{stalled}; {self.unacknowledged} of {self.published} not"
            f" acknowledged at the cure{refused}"
        )

    @property
    def is_late(self) -> bool:
        return max(self.tree, self.delivered) > CURED_SECONDS_MAX


@dataclass
class Report:
    partitions: list[Partition] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.wrong and all(verdict.clean for verdict in self.verdicts)

    @property
    def late(self) -> list[Partition]:
        return [each for each in self.partitions if each.is_late]

    def figures(self) -> dict[str, Any]:
        counts = [verdict.counts for verdict in self.verdicts]
        return {
            "partitions": dict(sorted(Counter(each.kind for each in self.partitions).items())),
            "tree_seconds": spread([each.tree for each in self.partitions]),
            "delivered_seconds": spread([each.delivered for each in self.partitions]),
            "late": len(self.late),
            "published": sum(each.published for each in counts),
            "delivered": sum(each.deliveries for each in counts),
            "found": {rule.value: sum(verdict.count(rule) for verdict in self.verdicts) for rule in Rule},
            "wrong": self.wrong,
            "all": [asdict(each) for each in self.partitions],
        }


class Stalls:
    """Measures for how long this process did not run though it wanted to."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            due = time.monotonic() + POLL_SECONDS
            await asyncio.sleep(POLL_SECONDS)
            self.longest = max(self.longest, time.monotonic() - due)


class Outstanding:
    """What was published and has not come to all who want it, or is not answered.

    Records are read as they come: the switch runs in this process, and waits for whoever reads all of them at once.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.published = 0
        self.unanswered: dict[str, float] = {}  # events, and when each was published
        self.owed: set[tuple[str, str]] = set()  # events and subscribers
        self.refused: Counter[str] = Counter()  # by reason
        self._recorder = recorder
        self._read = 0

    async def watch(self) -> None:
        while True:
            self.follow()
            await asyncio.sleep(POLL_SECONDS)

    def follow(self) -> None:
        records = self._recorder.records
        for record in records[self._read :]:
            self._note(record)
        self._read = len(records)

    def _note(self, record: Record) -> None:
        event = record.event
        match record.kind:
            case RecordKind.PUBLISH:
                self.published += 1
                self.unanswered[event] = record.at
                self.owed |= {(event, f"s{broker}") for broker in BROKERS if record.node != f"p{broker}"}
            case RecordKind.PUBLISH_ACK:
                self.unanswered.pop(event, None)
            case RecordKind.PUBLISH_FAIL:
                self.unanswered.pop(event, None)
                self.owed -= {(event, f"s{broker}") for broker in BROKERS}
                self.refused[record.detail] += 1
            case RecordKind.DELIVER:
                self.owed.discard((event, record.node))


class Network:
    def __init__(self, machines: Machines, witness: Witness, rng: Random) -> None:
        assert machines.switch is not None
        self.outstanding = Outstanding(witness.recorder)
        self.machines = machines
        self.witness = witness
        self.rng = rng
        self.switch: Switch = machines.switch

    # Clients -------------------------------------------------------------------------------------------------

    async def populate(self, per_second: float) -> None:
        """At each broker one that publishes its topic, and one that wants all topics but its broker's."""
        for broker in BROKERS:
            known = [broker, *self.rng.sample([each for each in BROKERS if each != broker], 1)]
            addresses = ",".join(self.machines.client_address(each).removeprefix("pleach://") for each in known)
            await self.witness.connect(f"p{broker}", addresses, switch=self.switch)
            wanted = f"topic IN ({', '.join(repr(each) for each in BROKERS if each != broker)})"
            await self.witness.connect(f"s{broker}", addresses, subscribe=wanted, switch=self.switch)
        for broker in BROKERS:
            self.witness.load(f"p{broker}", per_second / len(BROKERS), topic=broker)

    # Sides ---------------------------------------------------------------------------------------------------

    def home(self, found: Survey, broker: str) -> str:
        return self.machines.machine_of(found.admin[broker])

    def with_clients(self, found: Survey, machines: Iterable[str]) -> list[str]:
        """Machines, and the clients of the brokers that run there."""
        chosen = [*machines]
        brokers = [broker for broker in BROKERS if self.home(found, broker) in chosen]
        return [*chosen, *(client for broker in brokers for client in found.found[broker].clients)]

    @property
    def nodes(self) -> list[str]:
        return [*self.machines.all, *self.witness.clients]

    def rest(self, side: Sequence[str]) -> list[str]:
        return [node for node in self.nodes if node not in side]

    # One partition -------------------------------------------------------------------------------------------

    async def partition(self, kind: Kind, seconds: float) -> Partition:
        found = await self.machines.until_whole(BROKERS)
        await asyncio.sleep(CALM_SECONDS)
        told, holds = kind.holds(self, found)
        outstanding = self.outstanding
        outstanding.follow()
        published_before, refused_before = outstanding.published, outstanding.refused.copy()
        cut_at = time.monotonic()
        self._note(f"partition {told}")
        for sender, receiver in holds:
            self.switch.link(sender, receiver).hold(sender)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._note(f"end of partition {told}")
            for sender, receiver in holds:
                self.switch.link(sender, receiver).release(sender)
        cured_at, cured, stalls = time.monotonic(), time.strftime("%H:%M:%S"), Stalls()
        outstanding.follow()
        published = outstanding.published - published_before
        unacknowledged = sum(at >= cut_at for at in outstanding.unanswered.values())
        watching = asyncio.create_task(stalls.watch())
        try:
            tree, delivered = await asyncio.gather(self._until_one_tree(cured_at), self._until_delivered(cured_at))
        finally:
            watching.cancel()
        refused = dict(outstanding.refused - refused_before)
        figures = (tree, delivered, unacknowledged, published, stalls.longest, cured)
        return Partition(kind.name, told, seconds, *figures, refused=refused)

    async def _until_one_tree(self, cured_at: float) -> float:
        while True:
            found = await self.machines.survey()
            if not missing(found, BROKERS):
                return time.monotonic() - cured_at
            if time.monotonic() > cured_at + CURED_SECONDS_TRIED:
                raise AssertionError(f"not one tree: {missing(found, BROKERS)}")
            await asyncio.sleep(POLL_SECONDS)

    async def _until_delivered(self, cured_at: float) -> float:
        """All that was published before the cure, and not refused, has come to all who want it."""
        owed = set(self.outstanding.owed)
        while owed:
            await asyncio.sleep(POLL_SECONDS)
            owed &= self.outstanding.owed
            if time.monotonic() > cured_at + CURED_SECONDS_TRIED:
                raise AssertionError(f"{len(owed)} not delivered, such as {sorted(owed)[:3]}")
        return time.monotonic() - cured_at

    def _note(self, detail: str) -> None:
        self.witness.recorder.add(RecordKind.STATE, at=time.monotonic(), node="network", detail=detail)

    def exits(self) -> list[str]:
        """Processes that have ended: none may, and none may have been fenced."""
        ended = [f"{name} has ended" for name, machine in self.machines.all.items() if not machine.live.is_running]
        logs = [machine.live.log.read_text() for machine in self.machines.all.values()]
        return [
            *ended,
            *(f"a log tells of exit code {EXIT_FENCED}" for text in logs if f"ended with {EXIT_FENCED}" in text),
        ]


# Kinds ----------------------------------------------------------------------------------------------------------------


def both_ways(side: Sequence[str], rest: Sequence[str]) -> list[tuple[str, str]]:
    return [*product(side, rest), *product(rest, side)]


def halves(network: Network, found: Survey) -> tuple[str, list[tuple[str, str]]]:
    machines = sorted(network.machines.all)
    network.rng.shuffle(machines)
    some = sorted(machines[: len(machines) // 2])
    side = network.with_clients(found, some)
    return " ".join(some), both_ways(side, network.rest(side))


def one_alone(network: Network, found: Survey) -> tuple[str, list[tuple[str, str]]]:
    """Clients go with the majority: they reach whoever is promoted."""
    broker = network.rng.choice(BROKERS)
    side = [network.home(found, broker)]
    return f"{broker} on {side[0]}", both_ways(side, network.rest(side))


def one_with_clients(network: Network, found: Survey) -> tuple[str, list[tuple[str, str]]]:
    broker = network.rng.choice(BROKERS)
    home = network.home(found, broker)
    side = network.with_clients(found, [home])
    return f"{broker} on {home} with its clients", both_ways(side, network.rest(side))


def one_direction(network: Network, found: Survey) -> tuple[str, list[tuple[str, str]]]:
    broker = network.rng.choice(BROKERS)
    side = [network.home(found, broker)]
    if network.rng.random() < 0.5:
        return f"what {broker} on {side[0]} says", [*product(side, network.rest(side))]
    return f"what is said to {broker} on {side[0]}", [*product(network.rest(side), side)]


def standby_alone(network: Network, found: Survey) -> tuple[str, list[tuple[str, str]]]:
    """A broker and its standby do not hear each other; all others hear both."""
    broker = network.rng.choice(BROKERS)
    home, copy = network.home(found, broker), network.machines.copy_of(found, broker)
    return f"{broker} on {home} and its copy on {copy}", both_ways([home], [copy])


KINDS = (
    Kind("halves", halves),
    Kind("one alone", one_alone),
    Kind("one with its clients", one_with_clients),
    Kind("one direction", one_direction),
    Kind("standby alone", standby_alone),
)


async def partition_rounds(
    durations: Sequence[float], seed: int, place: Path, per_second: float, report: Report, *, say: Callable[[str], None]
) -> None:
    """One partition for each duration, of all kinds in turn."""
    rng = Random(seed)
    switch = Switch(lambda *_: (0.0, 0.001), f"partitions-{seed}")
    await switch.start()
    try:
        machines = Machines(place, *standby_flags(AFTER), switch=switch)
        async with machines, Witness(f"partitions-{seed}") as witness:
            network = Network(machines, witness, rng)
            await machines.grow(LINKS, ZONES)
            for name in HOSTS:
                await machines.add_host(name, ZONES[name])
            await machines.until_whole(BROKERS)
            await network.populate(per_second)
            following = asyncio.create_task(network.outstanding.watch())
            try:
                for number, seconds in enumerate(durations):
                    each = await network.partition(KINDS[(number + seed) % len(KINDS)], seconds)
                    report.partitions.append(each)
                    say(f"  seed {seed}: {each}{' LATE' if each.is_late else ''}")
                    report.wrong += [f"seed {seed}: {each}: {reason}" for reason in network.exits()]
            except (AssertionError, PleachError) as error:
                report.wrong.append(f"seed {seed}: {error}")
                say(report.wrong[-1])
            finally:
                following.cancel()
            if not await witness.drain():
                report.wrong.append(f"seed {seed}: it does not become quiet")
            verdict = judge(witness.recorder.records)
            report.verdicts.append(verdict)
            if not verdict.clean:
                report.wrong.append(f"seed {seed}: {explain(verdict, witness.recorder.records)}")
    finally:
        await switch.stop()
