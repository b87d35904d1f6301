"""A broker process that improves its tree together with those around it (optimise/council.py): no centre, no operator.

    neighbours ◀── Aside(Bulletin, Motion) ──▶ Council ──▶ Councillor ──▶ an exchange, asked for as operators do
    brokers within the radius ◀── Hello, role "meter" ── (distances.py): how far they are, with a link or without

What it says travels beside sessions: it is neither numbered nor kept, and one that is lost is said again. Only the
request for an exchange is the broker's own business, and on its disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from pleach.core.effects import Send
from pleach.core.links.frames import Aside
from pleach.core.messages import CouncilMessage, Node, encode
from pleach.core.optimise.council import Councillor, CouncilTurn
from pleach.core.optimise.council_observer import CouncilObserver
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.distances import KEPT, PROCESSING_MILLISECONDS, milliseconds
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.errors import ProtocolError
from pleach.operate.operation import fresh_name
from pleach.server.bugs import watched
from pleach.server.distances import ASKED_AT_ONCE_MAX, distances

if TYPE_CHECKING:
    from pleach.server.node import BrokerNode

MEASURE_SECONDS = 4.0  # between two measurements of the same distance
NEVER = float("-inf")
LOAD_SECONDS = 10.0  # over which the load of this process is averaged
LOAD_MAX = 0.9  # above, an event is taken to wait no longer: the machine has other troubles

log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(CouncilMessage)


class Load:
    """The share of the time that this process computes; what an event costs here grows with it, as waiting does."""

    def __init__(self) -> None:
        self._share = 0.0
        self._wall, self._busy = time.monotonic(), time.process_time()

    def look(self) -> None:
        wall, busy = time.monotonic(), time.process_time()
        span = wall - self._wall
        if span > 0.0:
            weight = min(1.0, span / LOAD_SECONDS)
            self._share += weight * ((busy - self._busy) / span - self._share)
            self._wall, self._busy = wall, busy

    @property
    def milliseconds(self) -> float:
        return PROCESSING_MILLISECONDS / (1.0 - min(max(self._share, 0.0), LOAD_MAX))


class Council:
    """The place of one broker in it; as its councillor sees the broker (`Ground`), and as the daemon sees it."""

    def __init__(self, node: BrokerNode, conduct: CouncilSettings) -> None:
        self._node = node
        self._load = Load()
        self._rounds: dict[Node, deque[float]] = {}  # the last measurements, in seconds there and back
        self._measured_at: dict[Node, float] = {}
        self._measuring: asyncio.Task[None] | None = None
        self.councillor = Councillor(
            node.name, self, conduct, now=node.now, where=node.settings.circumstances, fresh_name=fresh_name
        )
        node.council, node.gate.seat = self, CouncilObserver(self.councillor, self)

    # As the councillor sees the broker -------------------------------------------------------------------------

    @property
    def neighbours(self) -> Collection[Node]:
        return self._node.broker.router.neighbours

    @property
    def is_busy(self) -> bool:
        return bool(self._node.broker.operation)

    @property
    def address(self) -> str:
        return self._node.directory.places.peer

    @property
    def processing(self) -> float:
        return self._load.milliseconds

    def reach(self, broker: Node, *, is_linked: bool) -> float | None:
        """Of the last measurements: all but the shortest had to wait for something that is not distance."""
        if broker not in self._rounds:
            return None
        taken = self._rounds[broker]
        return milliseconds(min(taken) if is_linked else median(taken))

    @property
    def reached(self) -> Mapping[Node, float]:
        return {broker: milliseconds(min(taken)) for broker, taken in sorted(self._rounds.items())}

    # As the daemon sees it -------------------------------------------------------------------------------------

    def heard(self, peer: Node, frame: Aside) -> None:
        try:
            message: CouncilMessage = _decoder.decode(frame.payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.debug("%s says what is neither bulletin nor motion: %s", peer, error)
            return
        self._carry_out(self.councillor.handle(peer, message, now=self._node.now))

    def tick(self) -> None:
        now = self._node.now
        self._load.look()
        self._send(self.councillor.tick(now))
        self._measure(now)
        tally, counters = self.councillor.tally, self._node.counters
        counters.improve_bulletins, counters.improve_motions = tally["bulletins"], tally["motions"]
        counters.improve_decisions, counters.improve_changes = tally[ImproveVerdict.IMPROVE], tally["changes"]

    def _carry_out(self, turn: CouncilTurn) -> None:
        self._send(turn.sends)
        if turn.judgement is None:
            return
        if not turn.judgement.is_worth_it:
            log.debug("no exchange: %s", turn.judgement.verdict)
        elif turn.request is None:
            log.info("would exchange (dry run): %s", turn.judgement)
        else:
            log.info("exchange %s: %s", turn.request.operation, turn.judgement)
            try:
                self._node.operations.request(turn.request)
            except ProtocolError as error:
                log.warning("no exchange: %s", error)

    def _send(self, sends: Iterable[Send]) -> None:
        """To those who are there; what is said to others is not kept for them."""
        for to, message in ((each.to, each.message) for each in sends):
            link = self._node.links.get(to)
            if link is not None and self._node.is_up(to):
                link.wire.send(Aside(encode(message)))

    # Distances -------------------------------------------------------------------------------------------------

    def _measure(self, now: float) -> None:
        """Those first that were measured longest ago; a few at a time, so that they do not measure each other."""
        places = self.councillor.addresses
        for gone in [broker for broker in self._measured_at if broker not in places]:
            self._rounds.pop(gone, None)
            del self._measured_at[gone]
        due = [broker for broker in sorted(places) if now - self._measured_at.get(broker, NEVER) >= MEASURE_SECONDS]
        if not due or (self._measuring is not None and not self._measuring.done()):
            return
        chosen = sorted(due, key=lambda broker: self._measured_at.get(broker, NEVER))[:ASKED_AT_ONCE_MAX]
        self._measuring = watched(self._measured({broker: places[broker] for broker in chosen}))

    async def _measured(self, places: dict[Node, str]) -> None:
        found = await distances(self._node.name, self._node.endpoint.epoch, places)
        for broker, seconds in found.items():
            self._measured_at[broker] = self._node.now
            if seconds is not None:
                self._rounds.setdefault(broker, deque(maxlen=KEPT)).append(seconds)

    async def close(self) -> None:
        """Measure no more."""
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring])
