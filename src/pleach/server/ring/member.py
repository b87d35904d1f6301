"""A broker of a ring, from the start of its process to its end.

    OUTSIDE ── founded a ring, or entered the tree, or was in it before a restart ──▶ INSIDE ── SIGTERM ──▶ LEAVING

Rule 1: outside, no client and no broker is accepted, and the process is not announced as ready: what a client would
        publish here could not reach anybody.
Rule 2: inside, any broker may come and join the tree here. Whoever can send a member a datagram can join the ring.
Rule 3: a broker that cannot join ends, and says why. One that was in the tree before a restart goes on serving it, and
        tries again and again to join the ring.
Rule 4: a broker leaves the tree first, and then the ring: as long as it has links, others should know of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pleach.core.links.frames import ByeReason, Hello
from pleach.core.messages import Node, Peer
from pleach.core.overlay.plans import remove_broker
from pleach.errors import InvalidInputError, JoinError, PleachError, SettingsError, SurveyError
from pleach.net.addresses import backoff, parse_address
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.ring_seats import RingSeat, seat_of
from pleach.operate.survey import settled_survey
from pleach.server.bugs import watched
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.leaving import Leaving
from pleach.server.links import Port
from pleach.server.parts import NodeParts
from pleach.server.ring.driver import RingDriver
from pleach.server.ring.entrance import enter_ring, enter_tree, numeric_address
from pleach.server.ring.settings import RingSettings
from pleach.server.ring.signatures import DatagramSignatures
from pleach.server.ring.steward import Steward
from pleach.server.settings import LASTING

STEP_SECONDS_MAX: Final = 10.0  # a broker of the plan may have left meanwhile: then the plan is made anew
RETURN_SECONDS: Final = 5.0  # between attempts of a broker that was in the tree before

log = logging.getLogger(__name__)


class Stay(StrEnum):
    OUTSIDE = "outside"
    INSIDE = "inside"
    LEAVING = "leaving"


class RingMember(Feature):
    def __init__(
        self, parts: NodeParts, settings: RingSettings, leaving: Leaving, security: TransportSecurity | None = None
    ) -> None:
        self.stay = Stay.OUTSIDE
        self.refusal: PleachError | None = None  # why it could not join
        self._broker, self._directory, self._operations = parts.broker, parts.directory, parts.operations
        self._counters, self._is_durable = parts.counters.datagrams, parts.committer.is_durable
        self._settings = settings
        self._leaving = leaving
        self._signatures = DatagramSignatures(security, _microseconds) if security is not None else None
        lasting = parts.settings().lasting  # leases may differ: they are added broker by broker
        self._terms = {**{key: lasting[key] for key in LASTING}, **settings.terms}
        self._driver: RingDriver | None = None
        self.steward: Steward | None = None  # it acts only while this broker is the root
        self._tasks: list[asyncio.Task[None]] = []

    # Hooks and state -------------------------------------------------------------------------------------------

    def welcomes(self, broker: Node) -> bool:
        return self.is_open

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        if port is Port.PEERS or not self.is_outside:
            return None
        return HelloRefusal(ByeReason.REFUSED, f"{self._broker.name} is not in the tree yet; come again")

    def unready(self) -> str:
        return "not in the tree yet" if self.is_outside else ""

    def status(self) -> dict[str, object]:
        return {"ring": self.seat}

    @property
    def is_outside(self) -> bool:
        return self.stay is Stay.OUTSIDE

    @property
    def is_open(self) -> bool:
        """Whether brokers may join the tree here."""
        return self.stay is Stay.INSIDE and not self._leaving.has_left

    @property
    def seat(self) -> RingSeat | None:
        if self._driver is None:
            return None
        return seat_of(self._driver.host, is_leaving=self.stay is Stay.LEAVING, weaves=self._settings.weave)

    def successor(self) -> Node:
        """The broker that owns this one's key once this one is gone; empty: not known."""
        successors = self._driver.host.view.successors if self._driver is not None else ()
        return successors[0].name if successors else ""

    # Joining ---------------------------------------------------------------------------------------------------

    def begin(self, listens: str, on_ready: Callable[[], None], on_refused: Callable[[], None]) -> None:
        """Join. `listens`: the address for peers; datagrams are received at the same port."""
        self._tasks.append(watched(self._run(listens, on_ready, on_refused)))

    async def _run(self, listens: str, on_ready: Callable[[], None], on_refused: Callable[[], None]) -> None:
        was_inside = bool(self._broker.router.neighbours)
        try:
            driver = self._driver = await self._opened(listens)
            if not was_inside:
                await self._join(driver)
        except PleachError as error:
            self.refusal = error
            on_refused()
            return
        self.stay = Stay.INSIDE
        on_ready()
        if was_inside:
            await self._rejoin(driver)
        log.info("%s is in the ring, at key %d", self._broker.name, driver.me.key)
        if self._settings.weave:
            self.steward = Steward(self._broker.name, self._directory, driver)
            await self.steward.run()

    async def _opened(self, listens: str) -> RingDriver:
        name, config = self._broker.name, self._settings.config
        address = await numeric_address(self._directory.places.peer, key="advertise")
        me = Peer(config.circle.key_of(name), name, address)
        driver = RingDriver(
            me,
            config,
            self._counters,
            is_open=lambda: self.is_open,
            degree=lambda: len(self._broker.router.neighbours),
            terms=self._terms,
            signatures=self._signatures,
        )
        try:
            await driver.open(*parse_address(listens, key="peer_listen"))
        except OSError as error:
            reason = f"no datagrams can be taken at {listens}: {error.strerror}"
            raise SettingsError("peer_listen", reason, "a port that is free for UDP as well as for TCP") from None
        return driver

    async def _join(self, driver: RingDriver) -> None:
        settings = self._settings
        if settings.found:
            driver.found()
            return
        await enter_ring(driver, settings.join, self._terms, settings.join_seconds)
        room = None if settings.weave else settings.degree
        await enter_tree(self._broker, self._operations, driver, room)

    async def _rejoin(self, driver: RingDriver) -> None:
        """Through the seeds, or through neighbours; the founder founds the ring again if nobody answers."""
        while True:
            seeds = [*self._settings.join, *self._directory.to_dial().values()]
            try:
                await enter_ring(driver, seeds, self._terms, self._settings.join_seconds)
            except (JoinError, SettingsError) as error:
                if self._settings.found:
                    driver.found()
                    return
                log.warning("in the tree, and not in the ring: %s", error)
                await asyncio.sleep(RETURN_SECONDS)
            else:
                return

    # Leaving ---------------------------------------------------------------------------------------------------

    def leaves(self, then: Callable[[], None]) -> bool:
        """Whether this broker leaves the tree before it ends. `then`: called if it cannot; else it ends by itself."""
        if not self._settings.leave or self.stay is not Stay.INSIDE:
            return False
        self.stay = Stay.LEAVING
        self._tasks.append(watched(self._depart(then)))
        return True

    async def _depart(self, then: Callable[[], None]) -> None:
        reason = await self._left_tree()
        if reason:
            log.warning("stopped without leaving the tree: %s", reason)
        if not self._leaving.has_left:
            then()

    async def _left_tree(self) -> str:
        """Make and apply the plan of `pleach overlay remove`, and again where somebody else changed the tree meanwhile.

        Returns why this broker is still in the tree, or nothing. The last one of a tree stays in it.
        """
        clock = asyncio.get_running_loop().time
        deadline, pauses = clock() + self._settings.leave_seconds, backoff()
        while self._broker.router.neighbours:
            reason = await self._tried_removal()
            if not reason or clock() > deadline:
                return reason
            log.info("%s is still in the tree: %s", self._broker.name, reason)
            await asyncio.sleep(next(pauses))
        return ""

    async def _tried_removal(self) -> str:
        try:
            found = await settled_survey([self._directory.places.admin])
            plan = remove_broker(found.topology(), self._broker.name)
        except (SurveyError, InvalidInputError) as error:
            return str(error)
        # Without a disk, sessions of clients that are not connected end with the process anyway.
        detach, places = not self._is_durable, Directory.of(found)
        outcome = await apply_plan(plan, places, detach_absent=detach, seconds_max=STEP_SECONDS_MAX)
        return "" if outcome.complete else "; ".join(map(str, outcome.unfinished))

    async def stop(self, *, is_fatal: bool) -> None:
        for task in self._tasks:
            task.cancel()
        if self._driver is not None:
            self._driver.close()


def _microseconds() -> int:
    return time.time_ns() // 1_000
