"""Dialling: one task for each link that this side keeps up.

    wanted ──▶ dialled ──▶ connected ── lost ──▶ dialled again, at growing intervals
                  └── idle, and no answer for GONE_SECONDS ──▶ given up ── wanted again ──▶ dialled

Rule 1: the directory is asked for whom to dial, and where, before each attempt: addresses may change.
Rule 2: a link that both sides are done with is not dialled. A link that only this side is done with is dialled for a
        while, so that the other side can say that it is done as well: it may be gone.
Rule 3: a link that was given up is dialled again as soon as something is queued for it.
Rule 4: where a broker that has standbys does not answer soon, others are asked where it is. It is dialled more often
        than others: it may be back within a second, elsewhere. It has answered once it has said Hello: a connection
        may be one with a process that runs it no more, or with one that is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Coroutine
from random import SystemRandom
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pleach.core.links.batch import Batch
from pleach.core.links.frames import Frame, Hello
from pleach.core.messages import Node
from pleach.net.tunnel import Relay
from pleach.server.bugs import watched
from pleach.server.feature import Feature
from pleach.server.peer_directory import PeerDirectory

DIAL_SECONDS_MIN, DIAL_SECONDS_MAX = 0.02, 2.0  # between attempts: doubled each time, and spread by chance
REPLICATED_DIAL_SECONDS_MAX = 0.3  # to a broker that has standbys
ASK_AFTER_SECONDS = 0.2  # without an answer at the address that is known
GONE_SECONDS = 300.0  # a link that only this side is done with is not dialled for longer, if nobody answers
STABLE_SECONDS = 1.0  # a connection that lasted this long was a good one: the next attempt comes quickly again

Dial: TypeAlias = Callable[[Node, str], Coroutine[Any, Any, bool]]  # one attempt: whether there is a connection
DialThrough: TypeAlias = Callable[[Node, Relay], Coroutine[Any, Any, bool]]
Find: TypeAlias = Callable[[Node], Awaitable[str]]  # a broker's address by what others know; empty: they know no more


class Dials(NamedTuple):
    """How a broker's process dials; None: it does not."""

    directly: Dial | None = None
    through: DialThrough | None = None


log = logging.getLogger(__name__)
chance = SystemRandom()


async def nobody_knows(_broker: Node) -> str:
    return ""


class LinkEvents:
    """Of a link that is dialled: `unlinked` is set while there is no connection, `settled` once the peer has said Hello
    on it, or it has ended."""

    def __init__(self, *, is_linked: bool) -> None:
        self.unlinked, self.settled = asyncio.Event(), asyncio.Event()
        if not is_linked:
            self.disconnected()

    def connected(self) -> None:
        self.unlinked.clear()
        self.settled.clear()

    def answered(self) -> None:
        self.settled.set()

    def disconnected(self) -> None:
        self.unlinked.set()
        self.settled.set()

    @property
    def is_answered(self) -> bool:
        return self.settled.is_set() and not self.unlinked.is_set()


class Dialling(Feature):
    frames: ClassVar[tuple[type[Frame], ...]] = (Hello,)

    def __init__(
        self,
        directory: PeerDirectory,
        links: Container[Node],
        dial: Dial,
        *,
        find: Find = nobody_knows,
        gone_seconds: float = GONE_SECONDS,
    ) -> None:
        """`links`: peers that are connected."""
        self._directory = directory
        self._links = links
        self._dial = dial
        self._find = find
        self._gone_seconds = gone_seconds
        self._is_started = False
        self._events: dict[Node, LinkEvents] = {}  # of each that is dialled
        self._tasks: dict[Node, asyncio.Task[None]] = {}

    def start(self) -> None:
        self._is_started = True
        self.follow()

    def committed(self, batch: Batch, now: float) -> None:
        if self._is_started and (batch.dial or batch.retired):
            self.follow()

    def settings_applied(self) -> None:
        self.follow()

    def follow(self) -> None:
        """Dial whom the directory says now, and nobody else."""
        wanted = self._directory.to_dial()
        for peer in [peer for peer in self._tasks if peer not in wanted or self._is_wanted_again(peer)]:
            self._tasks.pop(peer).cancel()
            del self._events[peer]
        for peer in wanted:
            if peer not in self._tasks:
                self._events[peer] = LinkEvents(is_linked=peer in self._links)
                self._tasks[peer] = watched(self._keep_dialled(peer))

    def _is_wanted_again(self, peer: Node) -> bool:
        return self._tasks[peer].done() and not self._directory.is_idle(peer)

    def connected(self, peer: Node) -> None:
        if peer in self._events:
            self._events[peer].connected()

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        if peer in self._events:
            self._events[peer].answered()

    def disconnected(self, peer: Node, now: float) -> None:
        if peer in self._events:
            self._events[peer].disconnected()

    async def stop(self, *, is_fatal: bool) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _keep_dialled(self, peer: Node) -> None:
        delay, events = DIAL_SECONDS_MIN, self._events[peer]
        answered_at = time.monotonic()
        while True:
            is_linked = peer in self._links or await self._attempt(peer, events)
            since = time.monotonic()
            if is_linked:
                answered_at = since
            elif self._directory.is_idle(peer) and since - answered_at > self._gone_seconds:
                log.info("%s does not answer any more: the link to it is given up", peer)
                return
            await events.unlinked.wait()
            if is_linked and time.monotonic() - since > STABLE_SECONDS:
                delay = DIAL_SECONDS_MIN
            await asyncio.sleep(delay * chance.uniform(0.5, 1.5))
            is_replicated = self._directory.hosts_of(peer)
            delay = min(2 * delay, REPLICATED_DIAL_SECONDS_MAX if is_replicated else DIAL_SECONDS_MAX)

    async def _attempt(self, peer: Node, events: LinkEvents) -> bool:
        address = self._directory.to_dial().get(peer)
        if address is None:
            return False  # the task is about to end
        if not self._directory.hosts_of(peer):
            return await self._dial(peer, address)
        usual = asyncio.create_task(self._reach(peer, address, events))
        try:
            await asyncio.wait([usual], timeout=ASK_AFTER_SECONDS)
            if usual.done() and usual.result():
                return True
            found = await self._find(peer)
            if not usual.done() and found in ("", address):
                return await usual
        finally:
            usual.cancel()
        return events.is_answered or (bool(found) and await self._reach(peer, found, events))

    async def _reach(self, peer: Node, address: str, events: LinkEvents) -> bool:
        """Whether it has answered there."""
        if not await self._dial(peer, address):
            return False
        await events.settled.wait()
        return events.is_answered
