"""One soak: processes, clients, load, what the monkey does, and the judge beside them, until the time is over.

    monkey ──▶ actors ──▶ brokers as processes ◀──▶ clients ──▶ judge ──▶ log, minute by minute
                                    ▲
                                  watch

Then whatever is under way ends, the load stops, and once all is quiet the judge says what is lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec

from pleach.core.effects import Observe, Observed
from pleach.core.messages import Node
from pleach.core.overlay.plans import Topology
from pleach.errors import ClientError, PleachError
from pleach.harness.live_clients import LiveClients
from pleach.harness.network import LiveNetwork
from pleach.harness.run import Quiet
from pleach.harness.scenario_faults import for_processes
from pleach.operate.survey import survey
from pleach.scenario.model import Scenario
from pleach.server.bugs import watched
from pleach.soak.actions import Action, Settle, busy_with
from pleach.soak.actors import DONE, FAILED, WHOLE_SECONDS_MAX, Actors
from pleach.soak.latency import LatencyMeter
from pleach.soak.load import SoakLoad
from pleach.soak.log import Began, Ended, Entry, Finished, Flow, Header, Minute, SoakLog, Wrong
from pleach.soak.monkey import Seen
from pleach.soak.settings import SoakSettings, broker_names, environment_of, scenario_of, zones_of
from pleach.soak.sums import SoakComponents
from pleach.soak.watch import LogReader, ended_by_themselves, memory_of, tell_of_bugs, usage
from pleach.soak.whole import until_whole
from pleach.trace import NETWORK, Ordering, Record, Recorder, RecordKind, Rule, Verdict, Violation
from pleach.trace.online import OnlineOracle, Standing

MINUTE = 60.0
IDLE_SECONDS = 0.5  # where the monkey finds nothing to do
QUIET_SECONDS_MAX = 300.0
UNREST_SHOWN_MAX = 5
POLL_SECONDS = 0.5
RECENT_MAX = 100_000  # records that are kept for an explanation
EXPLAINED_MAX = 10  # violations of each rule whose records are written down
JUDGED = frozenset(RecordKind) - {RecordKind.SEND, RecordKind.MOVE, RecordKind.ADVERTISE, RecordKind.UNADVERTISE}

log = logging.getLogger(__name__)


class Chooser(Protocol):
    """The monkey, or a log that is played again."""

    def pause(self, now: float) -> float | None:
        """Seconds until the next action; None: there is none."""

    def choose(self, seen: Seen) -> Action | None: ...


class Audience(Protocol):
    """Is told of each entry of the log, when it is written."""

    def __call__(self, entry: Entry) -> None: ...


@dataclass(frozen=True)
class SoakFiles:
    """What a soak leaves in its folder."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "soak.jsonl"

    @property
    def machines(self) -> Path:
        return self.folder / "machines"

    @property
    def violations(self) -> Path:
        return self.folder / "violations"


async def soak(settings: SoakSettings, chooser: Chooser, folder: Path, audience: Audience) -> None:
    """Everything that was started is stopped, also after an error or Ctrl-C; the log has all that happened."""
    files = SoakFiles(folder)
    files.machines.mkdir(parents=True, exist_ok=True)
    scenario = for_processes(scenario_of(settings))
    with SoakLog(files.log) as log:
        network = LiveNetwork(scenario, files.machines, zones_of(settings), environment_of(settings))
        async with network:
            await SoakRun(settings, scenario, network, chooser, Telling(log, audience), files).go()


class Telling:
    """Writes entries to the log, and tells the audience."""

    def __init__(self, log: SoakLog, audience: Audience) -> None:
        self._log = log
        self._audience = audience

    def __call__(self, entry: Entry) -> None:
        self._log.write(entry)
        self._audience(entry)


@dataclass
class Progress:
    """Actions that are under way, by number, and what was known of the network last."""

    under_way: dict[int, Action] = field(default_factory=dict)
    tasks: set[asyncio.Task[str]] = field(default_factory=set)
    tree: Topology | None = None
    clients: dict[Node, Node] = field(default_factory=dict)


class SoakRun:
    def __init__(
        self,
        settings: SoakSettings,
        scenario: Scenario,
        network: LiveNetwork,
        chooser: Chooser,
        tell: Telling,
        files: SoakFiles,
    ) -> None:
        self._settings = settings
        self._network = network
        self._chooser = chooser
        self._tell = tell
        self._witness = Witness(settings, files, self._wrong)
        self._clients = LiveClients(scenario, network, self._observe, GoneClients(self._wrong))
        self._load = SoakLoad(scenario, self._clients, settings.run)
        self._actors = Actors(network, self._clients, self._load, self._fault)
        topics = broker_names(settings)[: settings.components]
        self._components = SoakComponents(network, topics, self._wrong)
        self._progress = Progress()
        self._began_at = math.inf
        self._logs = LogReader(files.machines)

    @property
    def now(self) -> float:
        """Seconds since all clients were connected."""
        return max(0.0, asyncio.get_running_loop().time() - self._began_at)

    async def go(self) -> None:
        tell_of_bugs(asyncio.get_running_loop(), self._wrong)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._clients.close_all)
            stack.push_async_callback(self._components.close)
            await self._clients.connect_all()
            self._began_at = asyncio.get_running_loop().time()
            self._witness.begin(self.now)
            self._tell(Header(settings=self._settings))
            self._clients.subscribe_initially()
            await self._components.start()
            self._load.start()
            minutes = watched(self._minutes())
            stack.callback(minutes.cancel)
            await self._act_until_told_to_end()
            await self._finish()

    # Actions

    async def _act_until_told_to_end(self) -> None:
        """After Ctrl-C nothing new begins; what is under way ends, and there is a verdict."""
        try:
            await self._act()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            await self._ended()

    async def _act(self) -> None:
        numbers = count(1)
        while (pause := self._chooser.pause(self.now)) is not None:
            await asyncio.sleep(pause)
            action = self._chooser.choose(await self._seen())
            if action is None:
                await asyncio.sleep(IDLE_SECONDS)
                continue
            if isinstance(action, Settle):
                await self._ended()
            task = self._start(next(numbers), action)
            if isinstance(action, Settle):
                await asyncio.wait([task])
        await self._ended()

    def _start(self, number: int, action: Action) -> asyncio.Task[str]:
        homes = {broker: self._network.home_of(broker) for broker in self._network.members}
        self._tell(Began(at=self.now, n=number, action=action, homes=homes))
        began = self.now
        task = asyncio.create_task(self._actors.carry_out(action))
        self._progress.under_way[number] = action
        self._progress.tasks.add(task)

        def ended(_: asyncio.Task[str]) -> None:
            del self._progress.under_way[number]
            self._progress.tasks.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            outcome = task.result() if error is None else f"broken: {type(error).__name__}: {error}"
            if error is not None:
                log.error("action %d, %s, is broken", number, action, exc_info=error)
            self._tell(Ended(at=self.now, n=number, outcome=outcome, seconds=round(self.now - began, 3)))
            if error is not None or outcome.startswith(FAILED) or (isinstance(action, Settle) and outcome != DONE):
                self._wrong(outcome)

        task.add_done_callback(ended)
        return task

    async def _ended(self) -> None:
        if self._progress.tasks:
            await asyncio.wait(self._progress.tasks)

    async def _seen(self) -> Seen:
        """The tree is the last one that all brokers agreed on: while one is away nobody knows a newer one."""
        network, known = self._network, self._progress
        try:
            await network.locate()
            found = await survey([*network.directory.admin.values()])
            known.tree = found.topology()
            places = {client: broker for broker, told in found.found.items() for client in told.clients}
            up = {c: broker for broker, told in found.found.items() for c, each in told.clients.items() if each.up}
            known.clients = {**places, **up}
        except PleachError:
            pass
        tree = known.tree or Topology.of(network.scenario.links, network.scenario.brokers)
        return Seen(
            tree=tree,
            homes={broker: network.home_of(broker) for broker in tree.brokers},
            machines=tuple(sorted(network.machines)),
            clients=known.clients,
            under_way=tuple(known.under_way.values()),
        )

    # The end

    async def _finish(self) -> None:
        reasons = await until_whole(self._network, self._clients, seconds_max=WHOLE_SECONDS_MAX)
        if reasons:
            self._wrong(f"not whole at the end: {'; '.join(reasons)}")
        self._load.stop()
        if unrest := await self._unrest():
            self._wrong(f"it does not become quiet: {'; '.join(unrest)}")
        self._components.check()
        await self._minute()
        verdict = self._witness.finish(self.now)
        self._tell(
            Finished(
                at=self.now,
                outcome=verdict.outcome.value,
                unusable=verdict.unusable,
                published=verdict.counts.published,
                deliveries=verdict.counts.deliveries,
                subscriptions=verdict.counts.subscriptions,
                found=self._witness.found,
            )
        )

    async def _unrest(self) -> list[str]:
        """Wait until all is quiet; returns what is not, after too long."""
        quiet = Quiet(is_leased=True)
        deadline = self.now + QUIET_SECONDS_MAX
        silent = ""
        while not quiet.is_reached and self.now < deadline:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._network.locate()
                found = await asyncio.gather(*(self._network.status(each) for each in self._network.running))
            except PleachError as error:
                silent = str(error)
                continue
            silent = ""
            quiet.look(found, self._witness.records, [str(task.get_coro()) for task in self._clients.under_way])
        if quiet.is_reached:
            return []
        return [silent] if silent else quiet.unrest[:UNREST_SHOWN_MAX] or ["events are still counted"]

    # Judgement

    def _observe(self, client: Node, seen: Observe) -> None:
        self._witness.observe(self.now, client, seen)
        if seen.kind is Observed.DELIVER and seen.event:
            self._load.answer(client, seen.event)
        elif seen.kind in (Observed.PUBLISH, Observed.PUBLISH_FAIL) and client in self._components.audits:
            self._components.observe(client, seen)

    def _fault(self, broker: Node, detail: str) -> None:
        self._witness.fault(self.now, broker, detail)

    def _wrong(self, what: str) -> None:
        self._tell(Wrong(at=self.now, what=what))

    async def _minutes(self) -> None:
        while True:
            await asyncio.sleep(MINUTE - self.now % MINUTE)
            await self._minute()

    async def _minute(self) -> None:
        machines = self._network.machines
        used = await asyncio.to_thread(usage, list(machines.values()))
        standing, latency = self._witness.standing(self.now), self._witness.latency
        flow = Flow(
            published=standing.published,
            deliveries=standing.deliveries,
            waiting=standing.waiting,
            oldest=round(standing.oldest, 3),
            remembered=standing.remembered,
            found=self._witness.found,
            latency_p50=round(latency.quantile(0.5), 5),
            latency_p99=round(latency.quantile(0.99), 5),
        )
        own, brokers = memory_of(os.getpid()), len(self._network.members)
        self._tell(Minute(at=self.now, flow=flow, used=used, brokers=brokers, own_memory_bytes=own))
        latency.clear()
        for bug in self._logs.bugs():
            self._wrong(bug)
        homes = {broker: self._network.home_of(broker) for broker in self._network.members}
        for ended in ended_by_themselves(self._network.machines, busy_with(self._progress.under_way.values(), homes)):
            self._wrong(ended)


class GoneClients:
    """Tells of each client once that has ended by itself. One that only publishes is missed by nobody else."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self._told: set[str] = set()

    def __call__(self, error: ClientError) -> None:
        what = f"a client has ended: {type(error).__name__}: {error}"
        if what not in self._told:
            self._told.add(what)
            self._wrong(what)


class Witness:
    """Gives what clients see to the judge, and writes down what was around a violation."""

    def __init__(self, settings: SoakSettings, files: SoakFiles, wrong: Callable[[str], None]) -> None:
        self._oracle = OnlineOracle(settings.run, Ordering.CAUSAL, window=settings.window, grace=settings.grace)
        self._recorder = Recorder(settings.run, kinds=JUDGED, give=self._judge)
        self._recent: deque[Record] = deque(maxlen=RECENT_MAX)
        self._folder = files.violations
        self._wrong = wrong
        self._explained: Counter[Rule] = Counter()
        self._is_blind = False
        self.records = 0
        self.latency = LatencyMeter()

    def begin(self, now: float) -> None:
        self._recorder.add(RecordKind.STATE, at=now, node=NETWORK, detail=f"ordering={Ordering.CAUSAL}")

    def observe(self, now: float, client: Node, seen: Observe) -> None:
        self._recorder.observe(now, client, seen)

    def fault(self, now: float, node: Node, detail: str) -> None:
        self._recorder.add(RecordKind.FAULT, at=now, node=node, detail=detail)

    def standing(self, now: float) -> Standing:
        """Also where nothing has happened for long: what is overdue is lost by now."""
        self._recorder.add(RecordKind.STATE, at=now, node=NETWORK, detail="a look")
        return self._oracle.standing()

    @property
    def found(self) -> dict[str, int]:
        return {rule.value: number for rule, number in sorted(self._oracle.standing().found.items())}

    def _judge(self, record: Record) -> None:
        self.records += 1
        self._recent.append(record)
        for violation in self._oracle.observe(record):
            self._report(violation)
        if self._oracle.unusable and not self._is_blind:
            self._is_blind = True
            self._wrong(f"nothing is judged from here on: {self._oracle.unusable}")
        if record.kind == RecordKind.DELIVER:
            published_at = self._oracle.published_at(record.event)
            if published_at is not None:
                self.latency.add(record.at - published_at)

    def _report(self, violation: Violation) -> None:
        self._explained[violation.rule] += 1
        if self._explained[violation.rule] > EXPLAINED_MAX:
            return
        self._wrong(str(violation))
        self._folder.mkdir(exist_ok=True)
        names = {violation.event, violation.other}
        about = [
            record
            for record in self._recent
            if record.event in names or (record.who == violation.client and record.kind != RecordKind.DELIVER)
        ]
        path = self._folder / f"{violation.rule}-{self._explained[violation.rule]}.jsonl"
        path.write_bytes(b"\n".join(map(msgspec.json.encode, [violation, *about])))

    def finish(self, now: float) -> Verdict:
        self._recorder.add(RecordKind.DRAIN, at=now, node=NETWORK)
        before = self._oracle.standing().found.total()
        verdict = self._oracle.finish()
        for violation in verdict.violations[before:]:
            self._report(violation)
        return verdict
