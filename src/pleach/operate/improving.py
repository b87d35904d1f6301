"""The closed loop: look at running brokers, find a cheaper tree for their traffic, exchange links, look again.

    look ──▶ sightings ──engine──▶ flows ──▶ search ──▶ proposal ──rules──▶ plan ──▶ apply
      ╰───── every few seconds ◀──────────────────────────────────────────────────────╯

Decisions are made in `optimise/improvement.py`; nothing here knows of costs. An `ImproveEngine` turns sightings into
flows: in memory here, or on Spark (`spark/control/`). Events go on while links are exchanged, and nothing is lost; and
whatever the loop misjudges costs time, never events.
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
from pleach.core.optimise.search_starts import SearchEnd, SearchTask, searched
from pleach.core.optimise.sightings import NOTE_SECONDS_MAX, Sighting, TrafficSample, sampled_traffic, seconds_taken
from pleach.core.overlay.choice import AUTO, check_fits
from pleach.core.overlay.plans import Plan
from pleach.core.overlay.plans.topology import Link
from pleach.errors import InvalidInputError, PleachError
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.observing import Look, Observer, measured

EVERY_SECONDS = 10.0
EVERY_SECONDS_MIN, EVERY_SECONDS_MAX = 0.5, NOTE_SECONDS_MAX / 2  # brokers keep notes for a minute
LAG_SECONDS = 1.0  # events younger than this may not be everywhere yet
ACTIONS_PER_MINUTE_MAX = 6
MINUTE = 60.0
STARTS = 8
ROUNDS_KEPT = 1_000
OTHER_TREES_FROM = 2  # brokers, or fewer, make one tree only
MEASURED_PER_SECOND_MAX = 100.0  # distances, on average: with many brokers they are measured less often

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImproveOptions:
    every: float = EVERY_SECONDS  # between looks; each judges the events since the one before
    rules: Rules = field(default_factory=Rules)
    actions_per_minute_max: int = ACTIONS_PER_MINUTE_MAX  # exchanges of a link
    prices: Prices | None = None  # None: what brokers measure
    protocol: str = AUTO
    starts: int = STARTS
    seed: int = 1
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not EVERY_SECONDS_MIN <= self.every <= EVERY_SECONDS_MAX:
            raise InvalidInputError(
                f"a look every {self.every:g} s; {EVERY_SECONDS_MIN:g} to {EVERY_SECONDS_MAX:g} are possible"
            )


class Exchanged(msgspec.Struct, frozen=True):
    remove: Link
    add: Link


class ImproveRound(msgspec.Struct, frozen=True):
    """One look, and what came of it. Costs are per event, in milliseconds unless somebody gave prices."""

    number: int
    at: float  # seconds since 1970
    verdict: str
    events: float = 0.0  # published since the last look, as far as a sample tells
    one_in: int = 1  # of which the sample has
    cost: float = 0.0
    cost_then: float = 0.0  # expected after the exchanges
    milliseconds: float | None = None  # from publishers' brokers to subscribers', on average, as it was measured
    exchanges: tuple[Exchanged, ...] = ()
    is_done: bool = False  # the exchanges were carried out, all of them
    trouble: str = ""  # why nothing could be seen, or not all was carried out

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
    """Turns what brokers have seen into flows, and flows into the ends of a search; the same on every engine."""

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        """`sightings`: those that are new. All of the events in between must have been handed over by now."""

    async def searched(self, task: SearchTask, starts: int) -> list[SearchEnd]: ...


class PlainEngine:
    """In this process; the search in a thread, so that others have their turn."""

    def __init__(self) -> None:
        self._kept: list[Sighting] = []

    async def pick(self, sightings: Sequence[Sighting], since: float, until: float) -> TrafficSample:
        self._kept = [each for each in self._kept if each.at >= since] + list(sightings)
        return sampled_traffic(self._kept, since, until)

    async def searched(self, task: SearchTask, starts: int) -> list[SearchEnd]:
        return await asyncio.to_thread(lambda: [searched(task, number) for number in range(starts)])


class Improver:
    """`engine`: plain, unless told otherwise."""

    def __init__(self, places: Sequence[str], wish: ImproveOptions, engine: ImproveEngine | None = None) -> None:
        self._wish = wish
        self._observer = Observer(places)
        self._engine = engine or PlainEngine()
        self._distances = Distances()
        self._measured_at = 0.0
        self._acted: deque[float] = deque()  # when links were exchanged, in the last minute
        self._recent: list[Sighting] = []  # of the events since the last look, for how long they took
        self._since: float | None = None
        self._number = 0

    async def first_look(self) -> None:
        """Brokers begin to note what passes.

        Raises PleachError where they cannot be seen, or prices or the protocol do not fit.
        """
        look = await self._observer.look()
        check_fits(self._wish.protocol, look.survey.circumstances)
        await self._costs(look)
        self._since = time.time()

    async def round(self) -> ImproveRound:
        """Whatever goes wrong is part of the answer: brokers that start again are there the next time."""
        self._number += 1
        try:
            return await self._round()
        except PleachError as error:
            return ImproveRound(self._number, time.time(), "not seen", trouble=str(error))

    async def _round(self) -> ImproveRound:
        look = await self._observer.look()
        since, until = self._since or look.at - self._wish.every, look.at - LAG_SECONDS
        self._since = max(since, until)
        self._recent = [each for each in self._recent if each.at >= since] + list(look.sightings)
        pick = await self._engine.pick(look.sightings, since, until)
        proposal = await self._proposed(look, pick)
        taken = seconds_taken(self._recent, since, until)
        seen = ImproveRound(
            self._number,
            look.at,
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
        return await self._acted_on(seen, proposal, look)

    async def _proposed(self, look: Look, pick: TrafficSample) -> Proposal:
        wish = self._wish
        task = SearchTask(wish.rules.problem(pick, look.tree, await self._costs(look)), look.tree, wish.seed)
        starts = wish.starts if len(look.tree) > OTHER_TREES_FROM else 1  # the tree itself
        ends = await self._engine.searched(task, starts)
        return proposed(task, ends, pick, wish.rules, leave=self._leave())

    async def _costs(self, look: Look) -> Costs:
        if self._wish.prices is not None:
            return self._wish.prices.in_zones(look.zones).costs(look.tree.brokers)
        pairs = len(look.tree) * (len(look.tree) - 1) / 2
        if look.at - self._measured_at >= pairs / MEASURED_PER_SECOND_MAX:
            self._distances.measured(await measured(look))
            self._measured_at = look.at
        return self._distances.costs(look.tree, look.zones)

    def _leave(self) -> int:
        while self._acted and self._acted[0] < time.monotonic() - MINUTE:
            self._acted.popleft()
        return self._wish.actions_per_minute_max - len(self._acted)

    async def _acted_on(self, seen: ImproveRound, proposal: Proposal, look: Look) -> ImproveRound:
        if not proposal.is_worth_it or self._wish.dry_run:
            return seen
        plan = self._plan(proposal, look)
        self._acted.extend([time.monotonic()] * len(seen.exchanges))
        outcome = await apply_plan(plan, Directory.of(look.survey))
        trouble = "" if outcome.complete else "; ".join(outcome.lines())
        return msgspec.structs.replace(seen, is_done=outcome.complete, trouble=trouble)

    def _plan(self, proposal: Proposal, look: Look) -> Plan:
        return proposal.order.plan(self._wish.protocol, look.survey.circumstances)


async def improve(
    places: Sequence[str],
    wish: ImproveOptions | None = None,
    *,
    rounds_max: int | None = None,
    on_round: Callable[[ImproveRound], None] = lambda _: None,
    engine: ImproveEngine | None = None,
) -> ImproveOutcome:
    """Improve the tree of these brokers (admin addresses), for so many looks, or until cancelled.

    Raises PleachError where they cannot be seen at all; what happens later is told round by round.
    """
    wish = wish or ImproveOptions()
    improver = Improver(places, wish, engine)
    await improver.first_look()
    rounds: deque[ImproveRound] = deque(maxlen=ROUNDS_KEPT)
    clock = asyncio.get_running_loop().time
    due = clock()
    for _ in count() if rounds_max is None else range(rounds_max):
        due = max(due + wish.every, clock())  # a round may have taken longer than that
        await asyncio.sleep(due - clock())
        done = await improver.round()
        log.info("round %s: %s", done.number, done.verdict)
        rounds.append(done)
        on_round(done)
    return ImproveOutcome(tuple(rounds))
