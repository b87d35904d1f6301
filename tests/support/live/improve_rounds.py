"""A tree that improves itself while events flow: the measured cost must fall, and nothing be lost or out of order.

Nine broker processes in three zones, with latencies between them that a proxy in every link makes. They begin as a
chain that leaves its zone with every link. At first events are wanted in the zone where they are published; half way
the zones a and c begin to want each other's. What is measured is the time from publication to delivery, from the trace.
Sums over all deliveries are told: of what each took (mean), and of what the quickest of the same second, publisher and
client took. The first one has in it whatever else the machine is busy with; the second one, on which the verdict rests,
hardly, unless it is busy with much. The third one is the price of the links that were taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.overlay.plans import Topology
from pleach.errors import SurveyError, TopologyError
from pleach.harness.run import LiveRun, run_live
from pleach.operate.improving import ImproveOptions, ImproveRound, improve
from pleach.operate.survey import survey
from pleach.scenario import parse_scenario
from pleach.scenario.model import PerLink, Scenario
from pleach.scenario.values import Span
from pleach.trace import Record, RecordKind, Verdict, explain, judge

ZONES = "abc"
NEAR = "[0.0005, 0.001]"
NEAR_SECONDS = 0.00075
FAR = {"ab": 0.080, "bc": 0.100, "ac": 0.060}  # seconds, one way
FALL_MIN = 0.30
MINUTE = 60.0
WINDOW_SECONDS = 5.0
MOMENTS_PER_WINDOW = 5
EVERY_SECONDS = 5.0
LOOK_SECONDS = 1.0  # between looks at brokers that improve their tree among themselves


@dataclass(frozen=True)
class Stage:
    """`seconds`: of the run. `per_second`: events of each of its sources."""

    seconds: float
    change_at: float  # when other events are wanted elsewhere
    brokers_per_zone: int = 3
    per_second: float = 20.0
    window: float = WINDOW_SECONDS
    wish: ImproveOptions = field(default_factory=lambda: ImproveOptions(every=EVERY_SECONDS, actions_per_minute_max=20))
    conduct: CouncilSettings | None = None  # of brokers that improve their tree themselves; None: the loop does it
    is_chain: bool = True  # else it begins with a tree that suits the first half
    goes_on: float | None = None  # seconds after the first exchange after the change; None: to the end

    @property
    def zones(self) -> dict[str, str]:
        return {f"{zone}{n + 1}": zone for zone in ZONES for n in range(self.brokers_per_zone)}

    @property
    def links(self) -> list[tuple[str, str]]:
        numbers = range(1, self.brokers_per_zone + 1)
        if self.is_chain:
            return list(pairwise(f"{zone}{n}" for n in numbers for zone in ZONES))
        return [("a1", "b1"), ("b1", "c1"), *((f"{zone}1", f"{zone}{n}") for zone in ZONES for n in numbers[1:])]

    def scenario(self) -> Scenario:
        links = ", ".join(f'["{a}", "{b}"]' for a, b in self.links)
        far = [(a, b, FAR[x + y]) for (a, x), (b, y) in combinations(self.zones.items(), 2) if x != y]
        head = (
            f'name = "improve"\nrouting = "covering"\nordering = "causal"\nlinks = [{links}]\nduration = {self.seconds}'
        )
        ground = parse_scenario(f"{head}\n[latency]\ndefault = {NEAR}\n{self._clients()}", file="improve")
        everywhere = tuple((a, b, Span(seconds, seconds)) for a, b, seconds in far)  # also where no link is yet
        latency = PerLink(ground.latency.default, everywhere)
        return msgspec.structs.replace(ground, latency=latency, improve=self.conduct)

    def _clients(self) -> str:
        sources = [
            *(self._source(zone, zone, 0.0, self.change_at) for zone in ZONES),
            *(self._source(zone, zone + other, self.change_at, self.seconds) for zone, other in ("ac", "ca")),
            *(self._source(zone, zone + other, 0.0, self.seconds, share=0.1) for zone, other in ("ab", "bc")),
        ]
        return "\n".join([*sources, *map(self._readers, self.zones.items())])

    def _source(self, zone: str, topic: str, begin: float, end: float, share: float = 1.0) -> str:
        every = 1.0 / (share * self.per_second)
        load = f'{{ every = {every}, from = {begin}, until = {end}, attributes = {{ topic = "{topic}" }} }}'
        return f'[[clients]]\nid = "from-{topic}"\nbroker = "{zone}1"\npublish = [{load}]'

    def _readers(self, place: tuple[str, str]) -> str:
        """At all brokers but the first of a zone: what is published in the zone, and for it."""
        broker, zone = place
        if broker.endswith("1"):
            return ""
        topics = [zone, *(other + zone for other in ZONES)]
        wanted = ", ".join(f"\"topic = '{topic}'\"" for topic in topics)
        return f'[[clients]]\nid = "at-{broker}"\nbroker = "{broker}"\nsubscribe = [{wanted}]'


class Window(NamedTuple):
    """Deliveries of events published from `at` on: milliseconds per delivery.

    `by_links`: what the links add up to that they took, by the tree that was there.
    """

    at: float
    quickest: float
    mean: float
    by_links: float
    deliveries: int


@dataclass
class Result:
    stage: Stage
    rounds: list[ImproveRound] = field(default_factory=list)
    changes: list[tuple[float, str]] = field(default_factory=list)  # of brokers among themselves
    trees: list[tuple[float, Topology]] = field(default_factory=list)  # since when
    windows: list[Window] = field(default_factory=list)
    verdict: Verdict | None = None
    explained: str = ""

    @property
    def before(self) -> Window:
        """Just after the change."""
        return next(window for window in self.windows if window.at >= self.stage.change_at)

    @property
    def after(self) -> Window:
        """The last one of the minute; or of all, where the run ends soon after the tree has followed."""
        ends = self.stage.change_at + MINUTE if self.stage.goes_on is None else math.inf
        return [window for window in self.windows if window.at + self.stage.window <= ends][-1]

    @property
    def fall(self) -> float:
        return 1.0 - self.after.quickest / self.before.quickest

    @property
    def fall_by_links(self) -> float:
        return 1.0 - self.after.by_links / self.before.by_links

    def tree_at(self, time: float) -> Topology:
        return [tree for since, tree in self.trees if since <= time][-1]

    @property
    def exchanges(self) -> int:
        return len(self.changes) or sum(len(each.exchanges) for each in self.rounds if each.is_done)

    @property
    def is_good(self) -> bool:
        return self.fall >= FALL_MIN and self.verdict is not None and self.verdict.clean


async def improve_rounds(place: Path, stage: Stage, on_round=lambda _round: None, engine=None) -> Result:
    """Start the brokers, let the loop work beside the traffic, and judge what clients saw."""
    result = Result(stage, trees=[(0.0, Topology.of(stage.links))])

    async def direct(run: LiveRun) -> None:
        await (_by_loop(run, result, on_round, engine) if stage.conduct is None else _among_themselves(run, result))

    done = await run_live(stage.scenario(), place, zones=stage.zones, direct=direct)
    result.windows = list(windows_of(done.records, result))
    if done.quiet:
        result.verdict = judge(done.records)
        result.explained = "" if result.verdict.clean else explain(result.verdict, done.records)
    return result


async def _by_loop(run: LiveRun, result: Result, on_round, engine) -> None:
    stage, has_followed = result.stage, asyncio.Event()

    def note(done: ImproveRound) -> None:
        result.rounds.append(done)
        if done.is_done:
            result.trees.append((run.now, _after(result.trees[-1][1], done)))
            if run.now > stage.change_at:
                has_followed.set()
        on_round(done)

    places = list(run.network.directory.admin.values())
    loop = asyncio.create_task(improve(places, stage.wish, on_round=note, engine=engine))
    await asyncio.wait([loop, asyncio.create_task(_end(run, stage, has_followed))], return_when="FIRST_COMPLETED")
    if loop.done():
        loop.result()  # it does not end by itself: something went wrong
    loop.cancel()
    await asyncio.wait([loop])


async def _among_themselves(run: LiveRun, result: Result) -> None:
    """Brokers act by themselves; all there is to do is to look."""
    has_followed = asyncio.Event()
    end = asyncio.create_task(_end(run, result.stage, has_followed))
    while not end.done():
        with contextlib.suppress(SurveyError, TopologyError):  # it changes just now: the next look tells
            tree = (await survey(list(run.network.directory.admin.values()), "/glance")).topology()
            _note_tree(run, result, tree)
        if run.now > result.stage.change_at and _joins_a_and_c(result.trees[-1][1]):
            has_followed.set()
        await asyncio.wait([end], timeout=LOOK_SECONDS)


def _joins_a_and_c(tree: Topology) -> bool:
    """What the second half asks for."""
    return any({a[0], b[0]} == {*"ac"} for a, b in tree.links)


def _note_tree(run: LiveRun, result: Result, tree: Topology) -> None:
    """One line for each link that has come since the last look, with one that has gone."""
    before = result.trees[-1][1]
    gone, come = sorted({*before.links} - {*tree.links}), sorted({*tree.links} - {*before.links})
    for old, new in zip(gone, come, strict=True):
        result.changes.append((run.now, f"− {'–'.join(old)}  + {'–'.join(new)}"))
    if come:
        result.trees.append((run.now, tree))


async def _end(run: LiveRun, stage: Stage, has_followed: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(stage.seconds - run.now):
            await (has_followed.wait() if stage.goes_on is not None else asyncio.Event().wait())
            await asyncio.sleep(stage.goes_on or 0.0)


def _after(tree: Topology, done: ImproveRound) -> Topology:
    """Links that come and go again meanwhile stay out of it."""
    links = {*tree.links}
    for each in done.exchanges:
        links = (links - {each.remove}) | {each.add}
    return Topology.of(sorted(links))


def windows_of(records: Sequence[Record], result: Result) -> Iterator[Window]:
    """By when events were published, counted from the change."""
    stage = result.stage
    published = {each.event: each.at for each in records if each.kind == RecordKind.PUBLISH}
    alike: dict[tuple[int, str, str], list[float]] = {}
    for each in records:
        if each.kind == RecordKind.DELIVER:
            at = published[each.event]
            moment = int((at - stage.change_at) * MOMENTS_PER_WINDOW // stage.window)
            alike.setdefault((moment, each.event.partition("/")[0], each.who), []).append(1_000.0 * (each.at - at))
    for number in sorted({moment // MOMENTS_PER_WINDOW for moment, _, _ in alike}):
        groups = {key: taken for key, taken in alike.items() if key[0] // MOMENTS_PER_WINDOW == number}
        count = sum(map(len, groups.values()))
        if count <= stage.per_second * stage.window:  # the ends of the run are no windows
            continue
        at = stage.change_at + number * stage.window
        quickest = sum(len(taken) * min(taken) for taken in groups.values()) / count
        mean = sum(map(sum, groups.values())) / count
        by_links = sum(len(taken) * _by_links(result, at, *key[1:]) for key, taken in groups.items()) / count
        yield Window(at, quickest, mean, by_links, count)


def _by_links(result: Result, at: float, publisher: str, client: str) -> float:
    """By the tree with which the window began."""
    here, there = f"{publisher.removeprefix('from-')[0]}1", client.removeprefix("at-")
    path = result.tree_at(at).path(here, there)
    return sum(1_000.0 * FAR.get("".join(sorted((a[0], b[0]))), NEAR_SECONDS) for a, b in pairwise(path))


def told(result: Result) -> Iterator[str]:
    yield "   from     quickest      mean  by links, in ms per delivery"
    for at, quickest, mean, by_links, deliveries in result.windows:
        yield f"{at:5.1f} s  {quickest:10.1f} {mean:9.1f} {by_links:9.1f}  {deliveries:,} deliveries"
    for at, what in result.changes:
        yield f"{at:5.1f} s  {what}"
    yield f"{result.exchanges} links exchanged in {sum(bool(each.exchanges) for each in result.rounds)} rounds"
    for trouble in filter(None, (each.trouble for each in result.rounds)):
        yield f"trouble: {trouble}"
    before, after = result.before, result.after
    fall = f"{before.quickest:.1f} ms after the change, {after.quickest:.1f} ms at the end: {result.fall:.0%} less"
    yield f"{fall} (wanted: {FALL_MIN:.0%}); by links {result.fall_by_links:.0%}"
    if result.verdict is None:
        yield "it did not become quiet"
        return
    counts = result.verdict.counts
    yield f"{counts.published:,} events, {counts.deliveries:,} deliveries, clean: {result.verdict.clean}"
    if result.explained:
        yield result.explained


def told_round(each: ImproveRound) -> str:
    links = ", ".join(f"{'–'.join(e.remove)} → {'–'.join(e.add)}" for e in each.exchanges)
    taken = f"{each.milliseconds:.1f} ms measured" if each.milliseconds is not None else "nothing delivered"
    costs = f"cost {each.cost:.1f}, then {each.cost_then:.1f}"
    return f"round {each.number}: {each.events:,.0f} events, {taken}, {costs}: {each.verdict} {links}{each.trouble}"
