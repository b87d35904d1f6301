"""The acts on a running network, one after the other: each begins when the one before has come to its end.

After every act the brokers are asked how their tree looks, so that what is shown is what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from pleach.core.messages import Node
from pleach.core.overlay.plans import Topology
from pleach.demo.acts import DemoAct, story, zones
from pleach.errors import LiveError
from pleach.harness.network import LiveNetwork
from pleach.harness.run import LiveResult, LiveRun, run_live
from pleach.operate.improving import ImproveOptions, improve
from pleach.operate.survey import Survey, settled_survey

TICK_SECONDS = 0.2
BACK_SECONDS_MAX = 15.0
LOOK_SECONDS = 3.0  # of traffic that the improving loop goes by
EXCHANGES_MAX = 12


@dataclass(frozen=True)
class TreeSnapshot:
    """What the brokers said at one moment."""

    topology: Topology
    homes: dict[Node, Node]  # client: broker
    away: frozenset[Node]  # clients that no broker has a connection to

    @classmethod
    def of(cls, found: Survey) -> TreeSnapshot:
        """A client that has just moved may be known in two places: where it is connected, it is."""
        known: dict[Node, Node] = {}
        connected: dict[Node, Node] = {}
        for broker, status in sorted(found.found.items()):
            for client, session in status.clients.items():
                (connected if session.up else known)[client] = broker
        return cls(found.topology(), known | connected, frozenset(known.keys() - connected.keys()))


@dataclass(frozen=True)
class Scene:
    """An act that was played, in seconds of the run. `changed_at`: when its steps had come to their end."""

    act: DemoAct
    began_at: float
    changed_at: float
    ended_at: float
    before: TreeSnapshot
    after: TreeSnapshot
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what there is to say beside how the tree has changed


@dataclass(frozen=True)
class Performance:
    result: LiveResult
    scenes: tuple[Scene, ...]


class RunReporter(Protocol):
    """Who is told how it goes."""

    def starts(self, network: LiveNetwork) -> None: ...

    def begins(self, act: DemoAct) -> None: ...

    def goes_on(self, records: int) -> None: ...

    def ends(self, scene: Scene) -> None: ...

    def drains(self) -> None: ...


async def perform(
    acts: Sequence[DemoAct], directory: Path, audience: RunReporter, *, seed: int, seconds_per_act: float
) -> Performance:
    """Starts everything, and stops it, whatever happens. An act takes `seconds_per_act`, or as long as it needs."""
    scenario = story(acts)
    scenes: list[Scene] = []

    async def direct(run: LiveRun) -> None:
        audience.starts(run.network)
        async with _ticking(lambda: audience.goes_on(len(run.recorder.records))):
            before = await _tree(run)
            for act in acts:
                audience.begins(act)
                scenes.append(await _played(run, act, before, seconds_per_act))
                before = scenes[-1].after
                audience.ends(scenes[-1])
            audience.drains()

    try:
        result = await run_live(scenario, directory, seed=seed, zones=zones(scenario), direct=direct)
    except ExceptionGroup as group:
        raise _only(group) from group
    return Performance(result, tuple(scenes))


async def _played(run: LiveRun, act: DemoAct, before: TreeSnapshot, seconds: float) -> Scene:
    began, refused = run.now, len(run.refusals)
    for at, together in groupby(act.steps, key=attrgetter("at")):
        await _sleep_until(run, began + at)
        await asyncio.gather(*(run.carry_out(step) for step in together))
    notes = await _improved(run, act.looks) if act.looks else ()
    await _until_all_are_back(run)
    changed = run.now
    await _sleep_until(run, began + seconds)
    after = await _tree(run)
    return Scene(act, began, changed, run.now, before, after, tuple(run.refusals[refused:]), notes)


async def _improved(run: LiveRun, looks: int) -> tuple[str, ...]:
    """What the brokers measured is an average over pairs of zones, so a look or two are enough."""
    wish = ImproveOptions(every=LOOK_SECONDS, actions_per_minute_max=EXCHANGES_MAX)
    outcome = await improve(list(run.network.directory.admin.values()), wish, rounds_max=looks)
    for trouble in outcome.troubles:
        run.refusals.append(f"improve: {trouble}")
    return tuple(
        f"an event cost {each.cost:.0f} ms of links; now {each.cost_then:.0f}, {each.share_saved:.0%} less"
        for each in outcome.rounds
        if each.is_done
    ) or ("the tree was left as it is: " + outcome.rounds[-1].verdict,)


async def _until_all_are_back(run: LiveRun) -> None:
    """All links are up, and all clients connected. Who stays away longer than the bound is left to the verdict."""
    await run.network.until_ready()
    deadline = run.now + BACK_SECONDS_MAX
    while (await _tree(run)).away and run.now < deadline:  # noqa: ASYNC110 - it is another process that changes
        await asyncio.sleep(TICK_SECONDS)


async def _tree(run: LiveRun) -> TreeSnapshot:
    return TreeSnapshot.of(await settled_survey(list(run.network.directory.admin.values())))


async def _sleep_until(run: LiveRun, time: float) -> None:
    await asyncio.sleep(max(0.0, time - run.now))


@asynccontextmanager
async def _ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    async def go_on() -> None:
        while True:
            tick()
            await asyncio.sleep(TICK_SECONDS)

    task = asyncio.get_running_loop().create_task(go_on())
    try:
        yield
    finally:
        task.cancel()


def _only(group: ExceptionGroup[Exception]) -> Exception:
    """What went wrong, in words; a fault of ours stays as it is."""
    first = group.exceptions[0]
    if isinstance(first, ExceptionGroup):
        return _only(first)
    return LiveError("the brokers did not answer in time") if isinstance(first, TimeoutError) else first
