"""A broker process that is in a ring: from its start to its end, for the daemon.

    OUTSIDE ── founded a ring, or entered the tree, or was in it before a restart ──▶ INSIDE ── SIGTERM ──▶ LEAVING

Rule 1: outside, no client and no broker is let in, and nobody is told that this broker is ready: what a client would
        publish here could not reach anybody.
Rule 2: inside, any broker may come and join the tree here. Whoever can send a member a datagram can join the ring.
Rule 3: a broker that cannot come in ends, and says why. One that was in the tree before a restart goes on serving it,
        and asks again and again to be let into the ring.
Rule 4: out of the tree first, and then out of the ring: as long as it has links, others should know of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pleach.core.messages import Peer
from pleach.errors import JoinError, PleachError, SettingsError
from pleach.net.addresses import parse_address
from pleach.operate.ring_seats import RingSeat, seat_of
from pleach.server.bugs import watched
from pleach.server.node import BrokerNode
from pleach.server.ring.departure import depart
from pleach.server.ring.driver import RingDriver
from pleach.server.ring.entrance import enter_ring, enter_tree, numeric_address
from pleach.server.ring.settings import RingSettings
from pleach.server.ring.steward import Steward

RETURN_SECONDS: Final = 5.0  # between attempts of a broker that was in the tree before

log = logging.getLogger(__name__)


class Stay(StrEnum):
    OUTSIDE = "outside"
    INSIDE = "inside"
    LEAVING = "leaving"


class RingMember:
    def __init__(self, node: BrokerNode, settings: RingSettings) -> None:
        self.stay = Stay.OUTSIDE
        self.refusal: PleachError | None = None  # why it could not come in
        self._node = node
        self._settings = settings
        self._terms = {**node.settings.lasting, **settings.terms}
        self._driver: RingDriver | None = None
        self.steward: Steward | None = None  # that of this broker; it acts as the root
        self._tasks: list[asyncio.Task[None]] = []

    # What the broker tells of it -------------------------------------------------------------------------------

    @property
    def is_outside(self) -> bool:
        return self.stay is Stay.OUTSIDE

    @property
    def is_open(self) -> bool:
        """Whether brokers may join the tree here."""
        return self.stay is Stay.INSIDE and not self._node.leaving.has_left

    @property
    def seat(self) -> RingSeat | None:
        if self._driver is None:
            return None
        return seat_of(self._driver.host, is_leaving=self.stay is Stay.LEAVING)

    # Coming ----------------------------------------------------------------------------------------------------

    def start(self, listens: str, on_ready: Callable[[], None], on_refused: Callable[[], None]) -> None:
        """`listens`: where the process takes connections of brokers; datagrams come to the same number."""
        self._tasks.append(watched(self._run(listens, on_ready, on_refused)))

    async def _run(self, listens: str, on_ready: Callable[[], None], on_refused: Callable[[], None]) -> None:
        was_inside = bool(self._node.broker.router.neighbours)
        try:
            driver = self._driver = await self._opened(listens)
            if not was_inside:
                await self._come(driver)
        except PleachError as error:
            self.refusal = error
            on_refused()
            return
        self.stay = Stay.INSIDE
        on_ready()
        if was_inside:
            await self._come_back(driver)
        log.info("%s is in the ring, at key %d", self._node.name, driver.me.key)
        if self._settings.weave:
            self.steward = Steward(self._node, driver)
            await self.steward.run()

    async def _opened(self, listens: str) -> RingDriver:
        node, config = self._node, self._settings.config
        address = await numeric_address(node.directory.places.peer, key="advertise")
        me = Peer(config.circle.key_of(node.name), node.name, address)
        driver = RingDriver(me, config, node.counters, is_open=lambda: self.is_open, terms=self._terms)
        try:
            await driver.open(*parse_address(listens, key="peer_listen"))
        except OSError as error:
            reason = f"no datagrams can be taken at {listens}: {error.strerror}"
            raise SettingsError("peer_listen", reason, "a port that is free for UDP as well as for TCP") from None
        return driver

    async def _come(self, driver: RingDriver) -> None:
        settings = self._settings
        if settings.found:
            driver.found()
            return
        await enter_ring(driver, settings.join, self._terms, settings.join_seconds)
        await enter_tree(self._node, driver)

    async def _come_back(self, driver: RingDriver) -> None:
        """By way of the seeds, or of neighbours; who has founded the ring founds it again if nobody is there."""
        while True:
            seeds = [*self._settings.join, *self._node.directory.to_dial().values()]
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

    # Going -----------------------------------------------------------------------------------------------------

    def leaves(self, then: Callable[[], None]) -> bool:
        """Whether this broker leaves before it ends. `then`: called if it stays; out of the tree it ends by itself."""
        if not self._settings.leave or self.stay is not Stay.INSIDE:
            return False
        self.stay = Stay.LEAVING
        self._tasks.append(watched(self._depart(then)))
        return True

    async def _depart(self, then: Callable[[], None]) -> None:
        reason = await depart(self._node, self._settings.leave_seconds)
        if reason:
            log.warning("stopped without leaving the tree: %s", reason)
        if not self._node.leaving.has_left:
            then()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._driver is not None:
            self._driver.close()
