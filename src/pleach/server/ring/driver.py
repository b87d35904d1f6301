"""A host of the ring over datagrams: its effects are sent, its timers run on the loop, and its answers are awaited.

It also asks and answers what hosts do not: who a broker is and whether others can join the tree at it (`Knock`), and
who has a key, before there is a host to look it up. Tickets of these are below zero, those of the host above.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, TypeVar, assert_never

from pleach.core.effects import SetTimer
from pleach.core.messages import FindOwner, Greeting, KeyOwner, Knock, Node, Peer
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import Cast, JoinEnded, OwnerFound, OwnerNotFound, RingEffect, TreeNeighbours
from pleach.core.ring.host import RingHost
from pleach.server.metrics import DatagramCounters
from pleach.server.ring.datagrams import DatagramSocket, Said
from pleach.server.ring.signatures import DatagramSignatures

KNOCK_SECONDS: Final = 0.5
FIND_SECONDS: Final = 1.5

Answer = TypeVar("Answer", Greeting, KeyOwner)


class RingDriver:
    def __init__(
        self,
        me: Peer,
        config: RingConfig,
        counters: DatagramCounters,
        *,
        is_open: Callable[[], bool],
        terms: Mapping[str, str],
        degree: Callable[[], int] = lambda: 0,
        signatures: DatagramSignatures | None = None,
    ) -> None:
        """`is_open`: whether others may join the tree of brokers here. `degree`: this one's neighbours in it.

        `terms`: what they must have in common.
        """
        self.me = me
        self.host = RingHost(me, config)
        self._changed = asyncio.Event()  # the neighbours in the tree are others than they were
        self._terms = dict(terms)
        self._is_open, self._degree = is_open, degree
        self._post = DatagramSocket(me.name, config.circle, counters, self._hear, signatures)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._joined: asyncio.Future[str] | None = None
        self._tickets = count(-1, -1)
        self._awaited: dict[int, asyncio.Future[Said]] = {}

    async def open(self, host: str, port: int) -> None:
        """Raises OSError where the port is not ours."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self._post, local_addr=(host, port))

    def close(self) -> None:
        """Out of the ring, if it was in it; what others need to know is said."""
        if self.host.phase is RingPhase.MEMBER:
            self._perform(self.host.leave(now=_now()))
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._post.close()

    # What brokers ask for ------------------------------------------------------------------------------------

    def found(self) -> None:
        self._perform(self.host.found(now=_now()))

    async def join(self, seeds: Sequence[Peer]) -> str:
        """Returns why not, or nothing."""
        self._joined = asyncio.get_running_loop().create_future()
        self._perform(self.host.join(seeds, now=_now()))
        return await self._joined

    async def knock(self, address: str, name: Node = "") -> Greeting | None:
        """None where no member answers. `name`: empty for whoever is there."""
        ticket = next(self._tickets)
        return await self._ask(Greeting, address, name, Knock(ticket, self.me), KNOCK_SECONDS)

    async def find(self, key: int, through: Peer) -> KeyOwner | None:
        """Who has a key, as the owner itself says; None where no answer comes."""
        question = FindOwner(key, next(self._tickets), self.me, 1)
        return await self._ask(KeyOwner, through.address, through.name, question, FIND_SECONDS)

    async def change(self, seconds_max: float) -> None:
        """Wait until the host has other neighbours in the tree, or the time is up."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._changed.wait()

    async def _ask(
        self, kind: type[Answer], address: str, name: Node, question: Knock | FindOwner, seconds: float
    ) -> Answer | None:
        future = self._awaited[question.ticket] = asyncio.get_running_loop().create_future()
        self._post.send(address, name, question)
        try:
            async with asyncio.timeout(seconds):
                answer = await future
        except TimeoutError:
            return None
        finally:
            del self._awaited[question.ticket]
        return answer if isinstance(answer, kind) else None

    # What the network and the clock bring ----------------------------------------------------------------------

    def _hear(self, sender: Node, message: Said) -> None:
        match message:
            case Knock(ticket, origin):
                if self.host.phase is RingPhase.MEMBER:
                    greeting = Greeting(ticket, self.me, self._is_open(), self._terms, self._degree())
                    self._post.send(origin.address, origin.name, greeting)
            case Greeting(ticket=ticket) | KeyOwner(ticket=ticket) if ticket < 0:
                future = self._awaited.get(ticket)
                if future is not None and not future.done():
                    future.set_result(message)
            case Greeting():
                pass
            case _ if sender == self.me.name:
                pass  # another broker of this name; it is refused when it knocks
            case _:
                self._perform(self.host.handle(sender, message, now=_now()))

    def _perform(self, effects: Sequence[RingEffect]) -> None:
        for effect in effects:
            match effect:
                case Cast(to, message):
                    self._post.send(to.address, to.name, message)
                case SetTimer(name, after):
                    self._timers[name] = asyncio.get_running_loop().call_later(after, self._ring, name)
                case TreeNeighbours():
                    self._changed.set()
                case JoinEnded(refusal):
                    if self._joined is not None and not self._joined.done():
                        self._joined.set_result(refusal)
                case OwnerFound() | OwnerNotFound():
                    pass  # nobody here has looked anything up
                case _:
                    assert_never(effect)

    def _ring(self, timer: str) -> None:
        self._perform(self.host.handle_timer(timer, now=_now()))


def _now() -> float:
    return asyncio.get_running_loop().time()
