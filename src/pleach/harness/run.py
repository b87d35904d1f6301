"""Runs of scenarios on real processes: the same file, the same clients, the same trace as in the simulator.

The clients run in this process and use the client library; what their machines observe is the trace, so that it is
recorded outside the brokers and by one clock. Loads and steps happen at their times in real seconds, counted from the
moment when all clients are connected. A drain waits until the network is quiet (`Quiet`); loads wait meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pleach.core.effects import Observe, Observed
from pleach.core.events.event import Event
from pleach.core.messages import Node
from pleach.harness.live_clients import LiveClients
from pleach.harness.network import NO_ZONES, LiveNetwork
from pleach.harness.outages import LiveOutages
from pleach.harness.scenario_faults import LiveStateFaults, for_processes
from pleach.harness.timeline import LiveOperations
from pleach.scenario import model, steps
from pleach.scenario.clients import Replies, perform_client_step, publications
from pleach.trace import NETWORK, Record, Recorder, RecordKind

DRAIN_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class LiveResult:
    scenario: model.Scenario
    records: list[Record]
    ended_at: float
    quiet: bool
    refusals: tuple[str, ...]
    unrest: tuple[str, ...] = ()  # why the run did not become quiet, if it did not


async def run_live(
    scenario: model.Scenario,
    directory: Path,
    *,
    seed: int = 1,
    zones: Mapping[Node, str] = NO_ZONES,
    watch: Callable[[LiveNetwork], Coroutine[Any, Any, None]] | None = None,
    direct: Callable[[LiveRun], Coroutine[Any, Any, None]] | None = None,
) -> LiveResult:
    """Start everything, run the timeline, wait until all is quiet, stop everything.

    `watch` runs beside the timeline, and is cancelled at its end. `direct` carries out steps instead of the timeline;
    loads end with it, or at the scenario's duration. `zones`: of brokers, for display.
    """
    scenario = for_processes(scenario)
    async with LiveNetwork(scenario, directory, zones) as network, _beside(network, watch):
        return await LiveRun(scenario, network, seed).go(direct or LiveRun.keep_to_the_timeline)


@asynccontextmanager
async def _beside(
    network: LiveNetwork, watch: Callable[[LiveNetwork], Coroutine[Any, Any, None]] | None
) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(watch(network)) if watch else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


@dataclass
class LiveRun:
    scenario: model.Scenario
    network: LiveNetwork
    seed: int
    refusals: list[str] = field(default_factory=list)
    unrest: list[str] = field(default_factory=list)  # as of the last poll

    def __post_init__(self) -> None:
        self.began_at: float | None = None  # when all clients were connected
        self.recorder = Recorder(f"live-{'-'.join(self.scenario.name.lower().split())}-{self.seed}")
        self.clients = LiveClients(self.scenario, self.network, self._observe)
        self.replies = {c.id: Replies(c, self.stream) for c in self.scenario.clients if c.reply}
        self.loads: list[asyncio.Task[None]] = []
        self.operations = LiveOperations(self.network, self.refuse, self._note)
        self.faults = LiveStateFaults(self)
        self.outages = LiveOutages(self)
        self.may_act = asyncio.Event()  # cleared while a drain waits
        self.may_act.set()

    @property
    def stream(self) -> str:
        """The seed of the clients' random draws."""
        return f"{self.scenario.name}/{self.seed}"

    @property
    def now(self) -> float:
        return 0.0 if self.began_at is None else asyncio.get_running_loop().time() - self.began_at

    async def go(self, direct: Callable[[LiveRun], Coroutine[Any, Any, None]]) -> LiveResult:
        self.record(RecordKind.STATE, NETWORK, detail=f"ordering={self.scenario.ordering.value}")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.clients.close_all)
            await self.clients.connect_all()
            self.began_at = asyncio.get_running_loop().time()
            self.clients.subscribe_initially()
            async with asyncio.TaskGroup() as acts:
                self.loads = [
                    acts.create_task(self._publish_load(client, index))
                    for client in self.scenario.clients
                    for index in range(len(client.publish))
                ]
                await direct(self)
                for load in self.loads:
                    load.cancel()
            quiet = await self._drain()
            unrest = () if quiet else tuple(self.unrest)
            return LiveResult(self.scenario, self.recorder.records, self.now, quiet, tuple(self.refusals), unrest)

    async def _publish_load(self, client: model.ScenarioClient, index: int) -> None:
        for publication in publications(client, index, self.scenario.duration, self.stream):
            await self._sleep_until(publication.at)
            await self.may_act.wait()
            self.clients.publish(client.id, publication)

    def _answer(self, client: Node, event: Event) -> None:
        if client not in self.replies or self.now >= self.scenario.duration:
            return
        for publication in self.replies[client].to(event):
            self.clients.publish_later(client, publication)

    # The timeline --------------------------------------------------------------------------------------------

    async def keep_to_the_timeline(self) -> None:
        """Start each step at its time, whether or not earlier ones have ended; then wait for all loads."""
        for step in self.scenario.steps:
            await self._sleep_until(step.at)
            match step:
                case (
                    steps.Swap()
                    | steps.Exchange()
                    | steps.AddBroker()
                    | steps.RemoveBroker()
                    | steps.MoveClient()
                    | steps.Partition()
                ):
                    self.clients.await_end(asyncio.create_task(self.carry_out(step)))
                case _:
                    await self.carry_out(step)
        await asyncio.gather(*self.loads)
        await self._sleep_until(self.scenario.duration)

    async def carry_out(self, step: steps.Step) -> None:
        """Carry out a step to its end."""
        match step:
            case steps.Swap() | steps.Exchange() | steps.AddBroker() | steps.RemoveBroker():
                await self.operations.carry_out(step)
            case (
                steps.Crash()
                | steps.Restart()
                | steps.Destroy()
                | steps.Partition()
                | steps.Cut()
                | steps.Heal()
                | steps.Slow()
            ):
                await self.outages.carry_out(step)
            case steps.Drain():
                await self._drain()
            case steps.MoveClient():
                await self.operations.move(step)
            case steps.Corrupt() | steps.Garble():
                await self.faults.strike(step)
            case _:
                perform_client_step(self.clients, step, now=self.now)

    def _note(self, broker: Node, detail: str) -> None:
        self.record(RecordKind.STATE, broker, detail=detail)

    def refuse(self, step: steps.Step, reason: str) -> None:
        text = f"{type(step).__struct_config__.tag}: {reason}"
        self.refusals.append(text)
        self.record(RecordKind.STATE, NETWORK, detail=f"refused: {text}")

    async def _sleep_until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now))

    # Quiet ---------------------------------------------------------------------------------------------------

    async def _drain(self) -> bool:
        self.may_act.clear()
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                await self._until_quiet()
        except TimeoutError:
            return False
        finally:
            self.may_act.set()
        self.record(RecordKind.DRAIN, NETWORK)
        return True

    async def _until_quiet(self) -> None:
        quiet = Quiet(is_leased=self.scenario.stabilise is not None)
        while not quiet.is_reached:
            await asyncio.sleep(POLL_SECONDS)
            await self.network.locate()
            down = [f"broker {b} is down" for b in self.network.members if b not in self.network.running]
            found = await asyncio.gather(*(self.network.status(broker) for broker in self.network.running))
            unanswered = [f"no answer yet: {task.get_coro()}" for task in self.clients.under_way]
            quiet.look(found, len(self.recorder.records), [*down, *unanswered])
            self.unrest = quiet.unrest

    # The trace -----------------------------------------------------------------------------------------------

    def record(self, kind: RecordKind, node: Node, *, detail: str = "", peer: str = "") -> None:
        self.recorder.add(kind, at=self.now, node=node, detail=detail, peer=peer)

    def _observe(self, client: Node, seen: Observe) -> None:
        self.recorder.observe(self.now, client, seen)
        if seen.kind is Observed.DELIVER and seen.event:
            self._answer(client, seen.event)


# The end of a drain ---------------------------------------------------------------------------------------------------

POLLS = 3  # in a row, all of them quiet


class Quiet:
    """Detects a quiet network from successive polls of its brokers: nothing is queued and no counter changes.

    With leases something is always queued somewhere, since renewals never end. There a link counts as empty if it was
    empty at any poll since the last change of a counter: an event that is still under way has to pass a broker, and
    that changes a counter.
    """

    def __init__(self, *, is_leased: bool) -> None:
        self._is_leased = is_leased
        self._moved: tuple[Any, ...] = ()
        self._emptied: set[tuple[str, str]] = set()  # links, since the last change
        self._polls = 0
        self.unrest: list[str] = []  # as of the last poll

    @property
    def is_reached(self) -> bool:
        return self._polls >= POLLS

    def look(self, found: Sequence[dict[str, Any]], records: int, unrest: Sequence[str]) -> None:
        """`found`: the status of each broker. `records`: of the trace, so far. `unrest`: what else is not quiet."""
        counted = [(s["counters"]["publishes"], s["counters"]["matches"], s["counters"]["deliveries"]) for s in found]
        moved = (records, *counted)
        if moved != self._moved or not self._is_leased:
            self._emptied.clear()
        self.unrest = [*unrest, *self._links(found)]
        self._polls = self._polls + 1 if moved == self._moved and not self.unrest else 0
        self._moved = moved

    def _links(self, found: Sequence[dict[str, Any]]) -> list[str]:
        unrest = []
        for status in found:
            for peer, link in {**status["neighbours"], **status["clients"]}.items():
                ends = (status["name"], peer)
                if not link["queued"]:
                    self._emptied.add(ends)
                if ends not in self._emptied or not link["up"]:
                    unrest.append(f"{status['name']}-{peer}: {link['queued']} queued, up: {link['up']}")
        return unrest
