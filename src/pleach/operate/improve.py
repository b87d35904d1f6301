"""The control loop that improves a tree: observe brokers, search a cheaper tree for their traffic, exchange links.

    observe ──▶ sightings ──engine──▶ flows ──▶ search ──▶ proposal ──rules──▶ plan ──▶ apply
      ╰───── every few seconds ◀───────────────────────────────────────────────────────────╯

Decisions are made in `core/optimise/improvement.py`. An `ImproveEngine` turns sightings into flows: in memory here, or
on Spark (spark/control.py). Events flow while links are exchanged, and none is lost: a wrong decision only costs time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean
from typing import Protocol

import msgspec

from pleach.core.optimise.cost import Costs
from pleach.core.optimise.distances import Distances
from pleach.core.optimise.improvement import ImproveVerdict, Proposal, Rules, proposed
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import SearchEnd, SearchTask, searched
from pleach.core.optimise.sightings import NOTE_SECONDS_MAX, Sighting, TrafficSample, sampled_traffic, seconds_taken
from pleach.core.overlay.choice import AUTO
from pleach.core.overlay.plans import Plan
from pleach.core.overlay.plans.topology import Link
from pleach.errors import InvalidInputError, PleachError
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.observe import Observation, Observer, measured

EVERY_SECONDS = 10.0
EVERY_SECONDS_MIN, EVERY_SECONDS_MAX = 0.5, NOTE_SECONDS_MAX / 2  # brokers keep notes for a minute
LAG_SECONDS = 1.0  # younger events may not have arrived everywhere
ACTIONS_PER_MINUTE_MAX = 6
MINUTE = 60.0
STARTS = 8
ROUNDS_KEPT = 1_000
OTHER_TREES_FROM = 2  # with so many brokers or fewer there is one tree only
MEASURED_PER_SECOND_MAX = 100.0  # distances, on average: with many brokers they are measured less often

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImproveOptions:
    every: float = EVERY_SECONDS  # seconds between rounds; each judges the events since the one before
    rules: Rules = field(default_factory=Rules)
    actions_per_minute_max: int = ACTIONS_PER_MINUTE_MAX  # exchanges of a link
    prices: Prices | None = None  # None: as brokers measure
    protocol: str = AUTO
    starts: int = STARTS
    seed: int = 1
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not EVERY_SECONDS_MIN <= self.every <= EVERY_SECONDS_MAX:
            raise InvalidInputError(
                f"a round every {self.every:g} s; {EVERY_SECONDS_MIN:g} to {EVERY_SECONDS_MAX:g} are possible"
            )


class Exchanged(msgspec.Struct, frozen=True):
    remove: Link
    add: Link


class ImproveRound(msgspec.Struct, frozen=True):
    """One round and its result. Costs are per event, in milliseconds unless prices were given."""

    number: int
    at: float  # seconds since 1970
    verdict: str
    events: float = 0.0  # published since the last round, estimated from a sample
    one_in: int = 1  # the share of the sample
    cost: float = 0.0
    cost_then: float = 0.0  # expected after the exchanges
    milliseconds: float | None = None  # from publishers' brokers to subscribers', on average, as it was measured
    exchanges: tuple[Exchanged, ...] = ()
    is_done: bool = False  # the exchanges were carried out, all of them
    trouble: str = ""  # why brokers could not be observed, or not all was carried out

    @property
    def is_worth_it(self) -> bool:
        return self.verdict == ImproveVerdict.IMPROVE

    @property
    def share_saved(self) -> float:
        return 1.0 - self.cost_then / self.cost if self.cost else 0.0


@dataclass(frozen=True)
class ImproveOutcome:
    """The last rounds, if there were many."""

    rounds: tuple[ImproveRound, ...]

    @property
    def exchanges(self) -> int:
        return sum(len(each.exchanges) for each in self.rounds if each.is_done)

    @property
    def troubles(self) -> tuple[str, ...]:
        return tuple(each.trouble for each in self.rounds if each.trouble)


class ImproveEngine(Protocol):
    """Turns sightings into flows, and searches trees for them; every engine gives the same results."""

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        """`sightings`: the new ones. All sightings of events between the two times must be handed over by now."""

    async def searched(self, task: SearchTask, starts: int) -> list[SearchEnd]: ...


class PlainEngine:
    """In this process; the search runs in a thread, so that the event loop goes on."""

    def __init__(self) -> None:
        self._kept: list[Sighting] = []

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        self._kept = [each for each in self._kept if each.at >= since] + list(sightings)
        return sampled_traffic(self._kept, since, until)

    async def searched(self, task: SearchTask, starts: int) -> list[SearchEnd]:
        return await asyncio.to_thread(lambda: [searched(task, number) for number in range(starts)])


class Improver:
    """`engine`: by default PlainEngine."""

    def __init__(self, places: Sequence[str], options: ImproveOptions, engine: ImproveEngine | None = None) -> None:
        self._options = options
        self._observer = Observer(places)
        self._engine = engine or PlainEngine()
        self._distances = Distances()
        self._measured_at = 0.0
        self._acted: deque[float] = deque()  # when links were exchanged, in the last minute
        self._recent: list[Sighting] = []  # of the events since the last round, for their latencies
        self._since: float | None = None
        self._number = 0

    async def begin(self) -> None:
        """Observe once, so that brokers begin to note events.

        Raises PleachError where they do not answer, or prices do not fit.
        """
        observed = await self._observer.observe()
        await self._costs(observed)
        self._since = time.time()

    async def round(self) -> ImproveRound:
        """Failures are part of the result: a broker that restarts is there in the next round."""
        self._number += 1
        try:
            return await self._round()
        except PleachError as error:
            return ImproveRound(self._number, time.time(), "not seen", trouble=str(error))

    async def _round(self) -> ImproveRound:
        observed = await self._observer.observe()
        since, until = self._since or observed.at - self._options.every, observed.at - LAG_SECONDS
        self._since = max(since, until)
        self._recent = [each for each in self._recent if each.at >= since] + list(observed.sightings)
        pick = await self._engine.pick(observed.sightings, since, until)
        proposal = await self._proposed(observed, pick)
        taken = seconds_taken(self._recent, since, until)
        seen = ImproveRound(
            self._number,
            observed.at,
            proposal.verdict,
            pick.events * pick.one_in,
            pick.one_in,
            proposal.cost_now,
            proposal.cost_then,
            1_000.0 * fmean(taken) if taken else None,
            tuple(Exchanged(each.remove, each.add) for each in proposal.order.exchanges)
            if proposal.is_worth_it
            else (),
        )
        return await self._acted_on(seen, proposal, observed)

    async def _proposed(self, observed: Observation, pick: TrafficSample) -> Proposal:
        options = self._options
        task = SearchTask(
            options.rules.problem(pick, observed.tree, await self._costs(observed)), observed.tree, options.seed
        )
        starts = options.starts if len(observed.tree) > OTHER_TREES_FROM else 1  # the tree itself
        ends = await self._engine.searched(task, starts)
        return proposed(task, ends, pick, options.rules, leave=self._actions_left())

    async def _costs(self, observed: Observation) -> Costs:
        if self._options.prices is not None:
            return self._options.prices.in_zones(observed.zones).costs(observed.tree.brokers)
        pairs = len(observed.tree) * (len(observed.tree) - 1) / 2
        if observed.at - self._measured_at >= pairs / MEASURED_PER_SECOND_MAX:
            self._distances.measured(await measured(observed))
            self._measured_at = observed.at
        return self._distances.costs(observed.tree, observed.zones)

    def _actions_left(self) -> int:
        while self._acted and self._acted[0] < time.monotonic() - MINUTE:
            self._acted.popleft()
        return self._options.actions_per_minute_max - len(self._acted)

    async def _acted_on(self, seen: ImproveRound, proposal: Proposal, observed: Observation) -> ImproveRound:
        if not proposal.is_worth_it or self._options.dry_run:
            return seen
        plan = self._plan(proposal, observed)
        self._acted.extend([time.monotonic()] * len(seen.exchanges))
        outcome = await apply_plan(plan, Directory.of(observed.survey))
        trouble = "" if outcome.complete else "; ".join(outcome.lines())
        return msgspec.structs.replace(seen, is_done=outcome.complete, trouble=trouble)

    def _plan(self, proposal: Proposal, observed: Observation) -> Plan:
        return proposal.order.plan(self._options.protocol, observed.survey.circumstances)


async def improve(
    places: Sequence[str],
    options: ImproveOptions | None = None,
    *,
    rounds_max: int | None = None,
    on_round: Callable[[ImproveRound], None] = lambda _: None,
    engine: ImproveEngine | None = None,
) -> ImproveOutcome:
    """Improve the tree of these brokers (admin addresses), for so many rounds, or until cancelled.

    Raises PleachError where no broker answers at first; later failures are part of their rounds.
    """
    options = options or ImproveOptions()
    improver = Improver(places, options, engine)
    await improver.begin()
    rounds: deque[ImproveRound] = deque(maxlen=ROUNDS_KEPT)
    clock = asyncio.get_running_loop().time
    due = clock()
    for _ in count() if rounds_max is None else range(rounds_max):
        due = max(due + options.every, clock())  # a round may have taken longer than that
        await asyncio.sleep(due - clock())
        done = await improver.round()
        log.info("round %s: %s", done.number, done.verdict)
        rounds.append(done)
        on_round(done)
    return ImproveOutcome(tuple(rounds))
