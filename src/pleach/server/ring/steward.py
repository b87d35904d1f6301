"""The steward makes the tree of brokers follow the ring, by exchanges of links that lose nothing.

It is the broker that all members take for the root of the ring's tree. It surveys the tree, reads which neighbours each
member should have, and exchanges links that the ring does not want for some that it misses, on the shortest cycles that
there are. Each exchange brings the two trees one link nearer; so it ends.

Rule 1: it changes nothing where brokers do not answer, an operation is under way, or a broker is about to leave. It
        makes links that both ends want, and takes such as neither wants; what others disagree about meanwhile, as while
        a broker joins, is left alone.
Rule 2: apart from its own exchanges, no link that it saw at its last look may be gone. So it does not interfere with
        the steps of an operator's plan.
Rule 3: after a refusal it waits, longer each time while all are refused. Brokers lock themselves: two stewards would be
        slow, not wrong.
Rule 4: brokers that are in no ring keep their place, at one of the members or between them as long as nobody wants the
        link.
Rule 5: what one look shows is used for `AT_ONCE_MAX` exchanges, which share no broker: none changes what another finds.
"""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from typing import Final

from pleach.core.messages import Node
from pleach.core.overlay.choice import AT_ONCE, AUTO, planned_exchange
from pleach.core.overlay.plans import Plan, Step, Topology
from pleach.core.overlay.plans.transform import exchanges_at_once
from pleach.core.ring.chord import RingPhase
from pleach.errors import DeniedError, InvalidInputError, SurveyError
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.ring_seats import RingSeat, RingWish, WantedTree, ring_wish, wanted_tree
from pleach.operate.survey import Survey, survey
from pleach.server.peer_directory import PeerDirectory
from pleach.server.ring.driver import RingDriver

LOOK_SECONDS: Final = 1.0
BROKERS_PER_SECOND: Final = 20.0  # asked, at most, where there is nothing to do
REFUSED_SECONDS_MAX: Final = 16.0
DOUBLED_MAX: Final = 10  # times, which is longer than that already
STEP_SECONDS_MAX: Final = 60.0
AT_ONCE_MAX: Final = 32  # exchanges

log = logging.getLogger(__name__)


class Sight(StrEnum):
    """What came of a look at the tree."""

    NOT_MINE = "another broker is the steward"
    UNCERTAIN = "the tree or the ring is changing, or not all of it answers"
    MOVING = "it is not as it was a moment ago"
    RIGHT = "the tree is that of the ring"
    CHANGED = "links were exchanged"
    REFUSED = "an exchange was not carried out"


class Steward:
    def __init__(self, name: Node, directory: PeerDirectory, driver: RingDriver) -> None:
        self.sight = Sight.NOT_MINE
        self.exchanged = 0
        self._name = name
        self._directory = directory
        self._driver = driver
        self._brokers = 1
        self._refusals = 0
        self._seen: Topology | None = None  # at the last look, or what has become of it by an exchange since

    async def run(self) -> None:
        while True:
            self.sight = await self._look() if self._is_root else Sight.NOT_MINE
            await asyncio.sleep(self._pause())

    @property
    def _is_root(self) -> bool:
        host = self._driver.host
        return (
            host.phase is RingPhase.MEMBER and host.neighbourhood.parent is None and bool(host.neighbourhood.children)
        )

    def _pause(self) -> float:
        match self.sight:
            case Sight.CHANGED:
                return 0.0
            case Sight.REFUSED:
                return min(REFUSED_SECONDS_MAX, LOOK_SECONDS * 2.0 ** min(self._refusals, DOUBLED_MAX))
            case Sight.NOT_MINE | Sight.UNCERTAIN | Sight.MOVING | Sight.RIGHT:
                return max(LOOK_SECONDS, self._brokers / BROKERS_PER_SECOND)

    async def _look(self) -> Sight:
        try:
            found = await survey([self._directory.places.admin], "/glance")
            self._brokers = len(found.found)
            tree = found.topology()
        except (SurveyError, InvalidInputError, DeniedError):
            return Sight.UNCERTAIN
        wish = ring_wish(seats_in(found))
        if wish.root != self._name or is_unsettled(found):
            return Sight.UNCERTAIN
        before, self._seen = self._seen, tree
        plan = next_exchanges(tree, wish, found)
        if plan is None:
            return Sight.RIGHT if wanted_in(found).tree is not None else Sight.UNCERTAIN
        return await self._carry_out(plan, found) if is_kept(before, tree) else Sight.MOVING

    async def _carry_out(self, plan: Plan, found: Survey) -> Sight:
        try:
            outcome = await apply_plan(plan, Directory.of(found), seconds_max=STEP_SECONDS_MAX)
        except DeniedError as error:
            return self._refused(str(error))
        self._seen = outcome.reached
        made = {*outcome.reached.links} - {*plan.start.links}
        self.exchanged += len(made)
        if made or outcome.complete:
            self._refusals = 0
        if not outcome.complete:
            return self._refused("; ".join(map(str, outcome.unfinished)))
        log.info("woven: %s", ", ".join(f"{a}–{b}" for a, b in sorted(made)))
        return Sight.CHANGED

    def _refused(self, why: str) -> Sight:
        self._refusals += 1
        log.info("not woven, to be tried again: %s", why)
        return Sight.REFUSED


def seats_in(found: Survey) -> dict[Node, RingSeat]:
    return {name: status.ring for name, status in found.found.items() if status.ring is not None}


def wanted_in(found: Survey) -> WantedTree:
    return wanted_tree(seats_in(found))


def is_unsettled(found: Survey) -> bool:
    """Whether somebody else is at work: an operator, or a broker that goes."""
    is_busy = any(status.operation or status.leaving.waits_for for status in found.found.values())
    return is_busy or any(seat.is_leaving for seat in seats_in(found).values())


def is_kept(before: Topology | None, tree: Topology) -> bool:
    """Whether all links that were there at a look are there still (rule 2); brokers may have come."""
    return before is not None and all(tree.has_link(a, b) for a, b in before.links)


def next_exchanges(tree: Topology, wish: RingWish, found: Survey) -> Plan | None:
    """Links that the ring wants for others that it does not; None where all that it wants are there."""
    exchanges = exchanges_at_once(tree, wish.links, AT_ONCE, kept=wish.kept, most=AT_ONCE_MAX)
    steps: list[Step] = []
    for each in exchanges:
        plan = planned_exchange(
            tree, remove=each.remove, add=each.add, protocol=AUTO, circumstances=found.circumstances
        )
        steps += plan.steps
    return Plan.of(tree, steps) if steps else None
