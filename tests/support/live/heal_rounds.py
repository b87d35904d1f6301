"""Rounds of `kill -9` for good under load, on real processes: the place of the dead broker is taken, and events go on.

Brokers in a tree, clients that publish and answer at each of them. In every round one broker is killed that never comes
back: a leaf, an inner one, the root. Told per round: who died, after how many seconds events came across the gap again,
and to the dead broker's own clients. At the end of each network (some rounds) the trace is judged; what sat on a dead
broker alone is counted apart, from its data directory and from what its neighbours and clients still had for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pleach.core.events.event import EventId
from pleach.core.messages import Deliver, Forward, Publish
from pleach.core.messages.runs import decode_all
from pleach.core.overlay.plans import Topology
from pleach.operate.survey import survey
from pleach.server.store import Store
from pleach.trace import RecordKind, Verdict, explain, judge
from pleach.trace.broker_losses import DIED, GIVEN_UP, HELD, linked_when_died
from support.live.fleet import Fleet, Witness

LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("c", "f"), ("f", "g"), ("a", "h"), ("d", "i"))
BROKERS = ("a", "b", "c", "d", "e", "f", "g", "h", "i")
AFTER, GRACE, HEARTBEAT = 1.0, 8.0, 0.5  # seconds
GAP_SECONDS_MAX = 5.0
HEALED_SECONDS_MAX = 120.0
WARM_UP, AFTERMATH = 1.5, 1.0
ROUNDS_PER_NETWORK = 5
ANSWERED = 20  # one event in so many
SEARCHED = re.compile(r"still has it: (\S+) for (\S+)$|\S+ (\S+): given up: .*: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Round:
    died: str
    position: str
    across: float  # seconds until the last of those behind the gap got something from beyond it
    back: float  # … until the last of the dead broker's clients got something
    whole: float  # … until the tree was whole

    def __str__(self) -> str:
        return (
            f"{self.died} died ({self.position}): across the gap after {self.across:.2f} s,"
            f" its clients after {self.back:.2f} s, whole after {self.whole:.2f} s"
        )

    @property
    def is_bad(self) -> bool:
        return max(self.across, self.back) > GAP_SECONDS_MAX


@dataclass
class Network:
    """One tree of processes, its clients, and what became of them."""

    fleet: Fleet
    witness: Witness
    place: Path
    links: Sequence[tuple[str, str]]
    ordering: str
    tree: Topology = field(init=False)
    _read: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = Topology.of(self.links)

    @property
    def brokers(self) -> list[str]:
        return sorted(self.tree.brokers)

    # Clients -------------------------------------------------------------------------------------------------

    async def populate(self, rate: float) -> None:
        """At each broker one that publishes its topic, and one that wants those of some others, and answers."""
        for broker in self.brokers:
            await self.witness.connect(f"p{broker}", self._addresses(broker))
            await self.witness.connect(f"s{broker}", self._addresses(broker))
            topics = ", ".join(f"'{prefix}{each}'" for each in self.wanted_at(broker) for prefix in ("", "answer-"))
            subscriber = self.witness.clients[f"s{broker}"]
            await subscriber.subscribe(f"topic IN ({topics})", name="s", callback=self._answering(broker))
        for broker in self.brokers:
            self.witness.load(f"p{broker}", rate, topic=broker)

    def wanted_at(self, broker: str) -> list[str]:
        """The brokers whose topics are wanted there: nearly all pairs are far from each other."""
        here, count = self.brokers.index(broker), len(self.brokers)
        return sorted({self.brokers[(here + step) % count] for step in (2, 3, 5)} - {broker})

    def _addresses(self, broker: str) -> str:
        """Its broker, and for half of the clients another one: the rest ask where their broker has told them to."""
        here = self.brokers.index(broker)
        known = [broker, *([self.brokers[here - 1]] if here % 2 else [])]
        return ",".join(self.fleet.client_address(each).removeprefix("pleach://") for each in known)

    def _answering(self, broker: str):
        async def answer(event) -> None:
            if event.attributes.get("n", 1) % ANSWERED == 0:
                future = await self.witness.clients[f"s{broker}"].publish_windowed({"topic": f"answer-{broker}"})
                future.add_done_callback(lambda done: done.cancelled() or done.exception())

        return answer

    # Deaths --------------------------------------------------------------------------------------------------

    async def bury(self, *victims: str) -> list[Round]:
        """Kill brokers for good, all at once, and wait until their places are taken."""
        processes = [self.fleet.processes[victim] for victim in victims]
        for process in processes:
            process.kill()
        for process in processes:
            await process.wait()
        died_at = time.monotonic()
        for victim in victims:
            self._note_death(victim)
            del self.fleet.directory.admin[victim]
        await self.until_whole()
        whole = time.monotonic() - died_at
        await self.until_whole(is_settled=True)
        await asyncio.sleep(AFTERMATH)
        await self._until_across(victims, died_at)
        self.note_held()
        return [Round(victim, self._position(victim), *self._gaps(victim, died_at), whole=whole) for victim in victims]

    async def _until_across(self, victims: Sequence[str], died_at: float) -> None:
        """Events come across all gaps again. If they do not in time, the rounds say so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEALED_SECONDS_MAX):
                while any(math.inf in self._gaps(victim, died_at) for victim in victims):  # noqa: ASYNC110 - processes
                    await asyncio.sleep(0.2)

    def _position(self, broker: str) -> str:
        count = len(self.tree.neighbours(broker))
        return "root" if broker == self.links[0][0] else "leaf" if count == 1 else f"inner, {count} neighbours"

    async def until_whole(self, *, is_settled: bool = False) -> None:
        """All brokers are there, in the same tree. `is_settled`: and no stand-in waits for former clients any more."""
        phases = {"", "idle"} if is_settled else {"", "idle", "serving"}
        async with asyncio.timeout(HEALED_SECONDS_MAX):
            while not await self._is_whole(phases):  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.2)

    async def _is_whole(self, phases: set[str]) -> bool:
        found = await survey(list(self.fleet.directory.admin.values()))
        statuses = {name: status.raw for name, status in found.found.items()}
        if sorted(statuses) != self.brokers or not all(raw["ready"] for raw in statuses.values()):
            return False
        has_settled = all(raw["heal"]["stand_in"] in phases for raw in statuses.values())
        is_known = all(raw["heal"]["knows_kin_of"] == sorted(raw["neighbours"]) for raw in statuses.values())
        return has_settled and is_known and not found.disagreements() and found.topology().links == self.tree.links

    # The trace -----------------------------------------------------------------------------------------------

    def _add(self, kind: RecordKind, node: str, *, detail: str, peer: str = "", event: str = "") -> None:
        self.witness.recorder.add(kind, at=time.monotonic(), node=node, peer=peer, event=event, detail=detail)

    def _note_death(self, victim: str) -> None:
        """The tree as it was, and what its disk says that it had for others: if nobody has it, it is lost with it."""
        self._add(RecordKind.FAULT, victim, detail="crash for good")
        for here, there in self.links:
            self._add(RecordKind.STATE, here, peer=there, detail=linked_when_died(victim))
        for client in self.witness.clients:
            self._add(RecordKind.STATE, client, peer=client[1:], detail=linked_when_died(victim))
        with Store.open(self.place / victim, victim, epoch=1) as store:
            sessions = store.load().sessions
        for peer, session in sorted(sessions.items()):
            for event in (event for payload in session.outbox for event in _events(payload)):
                self._add(RecordKind.FAULT, victim, peer=peer, event=str(event), detail=DIED)

    def note_held(self) -> None:
        """What brokers have said since the last look: of events that they still had, or gave up. Clients have told."""
        for path in sorted(self.place.glob("*.log")):
            text = path.read_text()[self._read.get(path, 0) :]
            self._read[path] = self._read.get(path, 0) + len(text)
            for held, dead, gives_up, given_up in SEARCHED.findall(text):
                if held:
                    self._add(RecordKind.STATE, path.stem, peer=dead, event=held, detail=HELD)
                else:
                    self._add(RecordKind.STATE, gives_up, event=given_up, detail=GIVEN_UP)

    def _gaps(self, victim: str, died_at: float) -> tuple[float, float]:
        """Until the last client across the gap, and the last of the dead broker's own, got what was published after."""
        records = [record for record in self.witness.recorder.records if record.at >= died_at]
        new = {record.event for record in records if record.kind == RecordKind.PUBLISH}
        first: dict[tuple[str, str], float] = {}
        for record in records:
            if record.kind == RecordKind.DELIVER and record.event in new:
                publisher = EventId.parse(record.event).publisher
                first.setdefault((record.node, publisher), record.at - died_at)
        across = [
            first.get((f"s{there}", f"p{here}"), math.inf)
            for there in self.brokers
            for here in self.wanted_at(there)
            if victim in self.tree.path(here, there)[1:-1]
        ]
        back = [first.get((f"s{victim}", f"p{here}"), math.inf) for here in self.wanted_at(victim)]
        return max(across, default=0.0), max(back)


def _events(payload: bytes) -> list[EventId]:
    return [m.event.id for m in decode_all(payload) if isinstance(m, Forward | Deliver | Publish)]


class Mourner(Witness):
    """Notes of its clients what they still had for a dead broker, too."""

    def _observer(self, name: str):
        observe = super()._observer(name)

        def heard(seen) -> None:
            if seen.detail == HELD:
                self.recorder.add(
                    RecordKind.STATE,
                    at=time.monotonic(),
                    node=name,
                    peer=name[1:],
                    event=seen.event_id,
                    detail=HELD,
                )
            else:
                observe(seen)

        return heard


def end_stand_ins(place: Path) -> None:
    """Those whose host was killed outlive it, and may just have started others; each has left its process id."""
    ended: set[Path] = set()
    while found := {*place.glob("**/stand-ins/*/*/pid")} - ended:
        for file in found:
            pid = int(file.read_text() or 0)  # empty: just being written
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and "pleach.server.healing.stand_in" in command.read_text():
                os.kill(pid, signal.SIGKILL)
        ended |= found


async def one_network(
    deaths: Sequence[Sequence[str]],
    seed: int,
    place: Path,
    *,
    ordering: str,
    rate: float,
    links: Sequence[tuple[str, str]] = LINKS,
    grace: float = GRACE,
) -> tuple[list[Round], Verdict, str]:
    """Returns the rounds, and how the trace is judged."""
    settings = (f"--heal-after={AFTER}", f"--heartbeat={HEARTBEAT}", f"--ordering={ordering}", "--log-level=debug")
    rounds: list[Round] = []
    try:
        fleet = Fleet(place, *settings, PLEACH_HEAL_GRACE=str(grace))
        async with fleet, Mourner(f"heal-{seed}", ordering) as witness:
            await fleet.grow(links)
            network = Network(fleet, witness, place, links, ordering)
            await network.populate(rate)
            await network.until_whole()
            for victims in deaths:
                await asyncio.sleep(WARM_UP)
                for each in await network.bury(*victims):
                    rounds.append(each)
                    sys.stdout.write(f"  seed {seed}: {each}\n")
                    sys.stdout.flush()
            is_quiet = await witness.drain()
            verdict = judge(witness.recorder.records)
            assert is_quiet, "it does not become quiet"
            return rounds, verdict, explain(verdict, witness.recorder.records)
    finally:
        end_stand_ins(place)


def deaths_of(rng: Random, rounds: int, *, pairs: bool) -> list[tuple[str, ...]]:
    """Nobody dies twice. Of two neighbours each has another one, who could tell."""
    if not pairs:
        return [(victim,) for victim in rng.sample(BROKERS, rounds)]
    inner = [("b", "c"), ("c", "f"), ("d", "c"), ("a", "b"), ("c", "d")]
    return [rng.choice(inner)]
