"""Links of this broker that go through relays: when the direct way is cut, and until it works again.

    a ─── ✗ ─── b        a is linked with b, and cannot reach it; r can reach both
     ╲         ╱         the session of a and b goes on by its numbers over a connection that r passes on (tunnels.py)
      ─── r ───

Rule 1: the direct way is tried all the time (dialling.py), and by this feature where the other side usually dials: it
        may be open from here only. choice.py says when relays are asked.
Rule 2: neighbours with a direct link are asked first, then any other broker whose address is known.
Rule 3: while a link is relayed, the direct way is probed, and the link goes back when it has answered often enough.
        Both sides do so; the one that dials is sooner.
Rule 4: as dialling.py does, it gives a link up that only this side is done with, if the peer stays away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from random import SystemRandom
from typing import Any, ClassVar

from pleach.core.links.frames import Frame, Hello
from pleach.core.messages import Node
from pleach.errors import SettingsError
from pleach.net.addresses import parse_address
from pleach.net.tunnel import Relay
from pleach.server.bugs import watched
from pleach.server.dialling import GONE_SECONDS, Dial, DialThrough
from pleach.server.distances import is_steady
from pleach.server.feature import Feature
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts
from pleach.server.relay.choice import PathChoice
from pleach.server.relay.settings import RelaySettings

ANSWER_SECONDS_MAX = 1.0  # from a connection to the Hello on it
RELAYS_ASKED_MAX = 8  # in one attempt

log = logging.getLogger(__name__)
chance = SystemRandom()


class RelayedLinks(Feature):
    frames: ClassVar[tuple[type[Frame], ...]] = (Hello,)

    def __init__(self, parts: NodeParts, settings: RelaySettings, dial: Dial, dial_through: DialThrough) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._counters, self._clock = parts.directory, parts.counters.relay, parts.clock
        self._after = settings.down_seconds
        self._dial, self._dial_through = dial, dial_through
        self._choices: dict[Node, PathChoice] = {}
        self._tasks: dict[Node, asyncio.Task[None]] = {}
        self._answered: dict[Node, asyncio.Event] = {}  # of whom a Hello is awaited
        self.relayed_since: dict[Node, float] = {}  # by link

    def tick(self, now: float) -> None:
        kept_up, to_dial = self._directory.kept_up(), self._directory.to_dial()
        for peer in kept_up:
            choice = self._choices.setdefault(peer, PathChoice(self._after, now))
            dials = peer in to_dial
            if self._links.is_up(peer):
                self._look_at(peer, choice, now, dials=dials)
            else:
                choice.down(now)
                is_gone = self._directory.is_idle(peer) and choice.down_seconds(now) > GONE_SECONDS
                if not is_gone and choice.is_relay_due(now, dials=dials) and peer not in self._tasks:
                    choice.attempted(now)
                    self._begin(peer, self._ask_others(peer, dials=dials))
        for peer in [each for each in self._choices if each not in kept_up]:
            self._forget(peer)

    def _look_at(self, peer: Node, choice: PathChoice, now: float, *, dials: bool) -> None:
        """A link that is up."""
        choice.heard(now - self._endpoint.sessions[peer].silence(now))
        if not self._links.relay_of(peer):
            self.relayed_since.pop(peer, None)
        elif peer not in self.relayed_since:
            self.relayed_since[peer] = now
            choice.relayed(now)
            log.warning("the link to %s goes through %s: the direct way is cut", peer, self._links.relay_of(peer))
        elif choice.is_probe_due(now) and peer not in self._tasks:
            self._begin(peer, self._probe(peer, choice, dials=dials))

    def _forget(self, peer: Node) -> None:
        """The link is no longer wanted."""
        del self._choices[peer]
        self.relayed_since.pop(peer, None)
        if (task := self._tasks.get(peer)) is not None:
            task.cancel()

    def _begin(self, peer: Node, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[peer] = watched(work)
        task.add_done_callback(lambda _: self._tasks.pop(peer))

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        if peer in self._answered:
            self._answered[peer].set()

    async def stop(self, *, is_fatal: bool) -> None:
        for task in list(self._tasks.values()):
            task.cancel()

    # While a link is down ------------------------------------------------------------------------------------

    async def _ask_others(self, peer: Node, *, dials: bool) -> None:
        """Make one attempt with each, until the link is up."""
        address = self._directory.peer_address(peer)
        if not dials and address and await self._answers(peer, self._dial(peer, address)):  # rule 1
            return
        for relay in self._relays(peer):
            if self._links.is_up(peer):
                return
            if await self._answers(peer, self._dial_through(peer, relay)):
                self._counters.relayed_connections += 1
                return

    async def _answers(self, peer: Node, attempt: Coroutine[Any, Any, bool]) -> bool:
        """Whether the link is up after an attempt: the peer has said Hello."""
        said = self._answered[peer] = asyncio.Event()
        try:
            if await attempt:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await said.wait()
        except TimeoutError:
            return False
        finally:
            del self._answered[peer]
        return self._links.is_up(peer)

    def _relays(self, peer: Node) -> Iterator[Relay]:
        """Rule 2."""
        neighbours = [each for each in self._broker.router.neighbours if self._links.is_up(each)]
        near = [each for each in neighbours if not self._links.relay_of(each)]
        far = [each for each in self._directory.known.brokers if each not in near]
        asked = [*_shuffled(near), *_shuffled(far)]
        for name in [each for each in asked if each != peer][:RELAYS_ASKED_MAX]:
            try:
                yield Relay(name, parse_address(self._directory.peer_address(name), key="relay"))
            except SettingsError as error:
                log.debug("%s cannot be asked to pass a connection on: %s", name, error)

    # While it is relayed -------------------------------------------------------------------------------------

    async def _probe(self, peer: Node, choice: PathChoice, *, dials: bool) -> None:
        """Rule 3."""
        address = self._directory.peer_address(peer)
        name, epoch = self._broker.name, self._endpoint.epoch
        choice.probed(self._clock(), is_answered=bool(address) and await is_steady(name, epoch, peer, address))
        if choice.is_return_due(dials=dials) and self._links.relay_of(peer):
            choice.returned(self._clock())
            log.info("the direct way to %s works again", peer)
            self._counters.relayed_returns += await self._dial(peer, address)

    # What operators see --------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        now = self._clock()
        shown = {
            peer: {"relay": self._links.relay_of(peer), "seconds": now - since}
            for peer, since in sorted(self.relayed_since.items())
        }
        return {"relayed": shown}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        neighbours = sorted(self._broker.router.neighbours)
        return {"pleach_link_relayed": [MetricSample(int(bool(self._links.relay_of(n))), n) for n in neighbours]}


def _shuffled(names: Sequence[Node]) -> list[Node]:
    return chance.sample(names, len(names))
