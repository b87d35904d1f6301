"""Whom a broker dials, and how often: a task for each link that this side keeps up.

    wanted ──▶ dialled ──▶ connected ── lost ──▶ dialled again, at growing intervals
                  └── idle, and no answer for GONE_SECONDS ──▶ given up ── wanted again ──▶ dialled

Rule 1: the directory says who is to be dialled, and where, each time anew: addresses may change.
Rule 2: a link that both sides are done with is not dialled. One that only we are done with is, for a while, so that the
        other side can say that it is done as well: it may be gone.
Rule 3: a link that was given up is dialled again as soon as there is something to say on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container
from random import SystemRandom

from pleach.core.messages import Node
from pleach.server.bugs import watched
from pleach.server.peer_directory import PeerDirectory

DIAL_SECONDS_MIN, DIAL_SECONDS_MAX = 0.02, 2.0  # between attempts: doubled each time, and spread by chance
GONE_SECONDS = 300.0  # a link that we have given up is not dialled for longer than this, if nobody answers
STABLE_SECONDS = 1.0  # a connection that lasted this long was a good one: the next attempt comes quickly again

log = logging.getLogger(__name__)
chance = SystemRandom()


class Dialling:
    def __init__(
        self,
        directory: PeerDirectory,
        links: Container[Node],
        dial: Callable[[Node, str], Awaitable[bool]],
        *,
        gone_seconds: float = GONE_SECONDS,
    ) -> None:
        """`links`: to whom there is a connection. `dial`: one attempt, at an address; whether there is one now."""
        self._directory = directory
        self._links = links
        self._dial = dial
        self._gone_seconds = gone_seconds
        self._unlinked: dict[Node, asyncio.Event] = {}  # of each that is dialled: set while there is no connection
        self._tasks: dict[Node, asyncio.Task[None]] = {}

    def follow(self) -> None:
        """Dial whom there is to dial now, and nobody else."""
        wanted = self._directory.to_dial()
        for peer in [peer for peer in self._tasks if peer not in wanted or self._is_wanted_again(peer)]:
            self._tasks.pop(peer).cancel()
            del self._unlinked[peer]
        for peer in wanted:
            if peer not in self._tasks:
                self._unlinked[peer] = asyncio.Event()
                self.note(peer)
                self._tasks[peer] = watched(self._keep_dialled(peer))

    def _is_wanted_again(self, peer: Node) -> bool:
        return self._tasks[peer].done() and not self._directory.is_idle(peer)

    def note(self, peer: Node) -> None:
        """A connection to it has come, or gone."""
        event = self._unlinked.get(peer)
        if event is None:
            return
        if peer in self._links:
            event.clear()
        else:
            event.set()

    def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _keep_dialled(self, peer: Node) -> None:
        delay = DIAL_SECONDS_MIN
        answered_at = time.monotonic()
        while True:
            is_linked = peer in self._links or await self._attempt(peer)
            since = time.monotonic()
            if is_linked:
                answered_at = since
            elif self._directory.is_idle(peer) and since - answered_at > self._gone_seconds:
                log.info("%s is gone, and so is the link to it", peer)
                return
            await self._unlinked[peer].wait()
            if is_linked and time.monotonic() - since > STABLE_SECONDS:
                delay = DIAL_SECONDS_MIN
            await asyncio.sleep(delay * chance.uniform(0.5, 1.5))
            delay = min(2 * delay, DIAL_SECONDS_MAX)

    async def _attempt(self, peer: Node) -> bool:
        address = self._directory.to_dial().get(peer)
        return address is not None and await self._dial(peer, address)  # else it is given up, and so will be this
