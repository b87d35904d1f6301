"""Brokers that improve their tree among themselves (core/optimise/council.py), in a broker process.

    neighbours ◀── Aside(Bulletin, Motion) ──▶ Council ──▶ Councillor ──▶ an exchange, asked for as operators do
    brokers within the radius ◀── Hello, role "meter" ── (distances.py): how far they are, with a link or without

Bulletins and motions are neither numbered by sessions nor kept; one that is lost is sent again. Only the request for an
exchange is journalled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

import msgspec

from pleach.core.effects import Effect, Passed, Send
from pleach.core.links.frames import Aside, Frame
from pleach.core.messages import CouncilMessage, Message, Node, encode
from pleach.core.messages.runs import Run
from pleach.core.optimise.council import Councillor, CouncilObserver, CouncilTurn
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.distances import KEPT, PROCESSING_MILLISECONDS, milliseconds
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.errors import ProtocolError
from pleach.operate.operation import fresh_name
from pleach.server.bugs import watched
from pleach.server.distances import ASKED_AT_ONCE_MAX, distances
from pleach.server.feature import Feature
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts

MEASURE_SECONDS = 4.0  # between two measurements of the same distance
NEVER = float("-inf")
LOAD_SECONDS = 10.0  # over which the load of this process is averaged
LOAD_MAX = 0.9  # the estimate of an event's cost does not grow above this load

log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(CouncilMessage)


class Load:
    """The share of time that this process computes; the cost of an event is estimated from it, as queueing grows."""

    def __init__(self) -> None:
        self._share = 0.0
        self._wall, self._busy = time.monotonic(), time.process_time()

    def sample(self) -> None:
        wall, busy = time.monotonic(), time.process_time()
        span = wall - self._wall
        if span > 0.0:
            weight = min(1.0, span / LOAD_SECONDS)
            self._share += weight * ((busy - self._busy) / span - self._share)
            self._wall, self._busy = wall, busy

    @property
    def milliseconds(self) -> float:
        return PROCESSING_MILLISECONDS / (1.0 - min(max(self._share, 0.0), LOAD_MAX))


class Council(Feature):
    """One broker in the council: what its councillor sees of the broker (`CouncilGround`), and its hooks."""

    frames = (Aside,)

    def __init__(self, parts: NodeParts, conduct: CouncilSettings) -> None:
        self._broker, self._epoch, self._directory = parts.broker, parts.endpoint.epoch, parts.directory
        self._links, self._operations = parts.links, parts.operations
        self._counters, self._clock = parts.counters.improve, parts.clock
        self._load = Load()
        self._rounds: dict[Node, deque[float]] = {}  # the last measurements, in seconds there and back
        self._measured_at: dict[Node, float] = {}
        self._measuring: asyncio.Task[None] | None = None
        name, where = parts.broker.name, parts.settings().circumstances
        self.councillor = Councillor(name, self, conduct, now=parts.clock(), where=where, fresh_name=fresh_name)
        self._seat = CouncilObserver(self.councillor, self)

    # What the councillor sees of the broker --------------------------------------------------------------------

    @property
    def neighbours(self) -> Collection[Node]:
        return self._broker.router.neighbours

    @property
    def is_busy(self) -> bool:
        return bool(self._broker.operation)

    @property
    def address(self) -> str:
        return self._directory.places.peer

    @property
    def processing(self) -> float:
        return self._load.milliseconds

    def reach(self, broker: Node, *, is_linked: bool) -> float | None:
        """From the last measurements: on a link the shortest counts, as the others include waiting."""
        if broker not in self._rounds:
            return None
        taken = self._rounds[broker]
        return milliseconds(min(taken) if is_linked else median(taken))

    @property
    def reached(self) -> Mapping[Node, float]:
        return {broker: milliseconds(min(taken)) for broker, taken in sorted(self._rounds.items())}

    # Hooks -----------------------------------------------------------------------------------------------------

    def message_handled(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        self._seat.saw(sender, message, effects, now)

    def run_handled(self, sender: Node, run: Run, passed: Passed) -> None:
        self._seat.saw_run(sender, run, passed, time.monotonic())

    def timer_handled(self, effects: Sequence[Effect], now: float) -> None:
        self._seat.saw_timer(effects, now)

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        if not isinstance(frame, Aside) or peer not in self.neighbours:
            return
        try:
            message: CouncilMessage = _decoder.decode(frame.payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.debug("%s sent an Aside that is neither bulletin nor motion: %s", peer, error)
            return
        self._carry_out(self.councillor.handle(peer, message, now=now))

    def tick(self, now: float) -> None:
        self._load.sample()
        self._send(self.councillor.tick(now))
        self._measure(now)
        tally, counters = self.councillor.tally, self._counters
        counters.improve_bulletins, counters.improve_motions = tally["bulletins"], tally["motions"]
        counters.improve_decisions, counters.improve_changes = tally[ImproveVerdict.IMPROVE], tally["changes"]

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        samples = [MetricSample(cost, broker) for broker, cost in self.reached.items()]
        return {"pleach_improve_reach_milliseconds": samples}

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
                self._operations.request(turn.request)
            except ProtocolError as error:
                log.warning("no exchange: %s", error)

    def _send(self, sends: Iterable[Send]) -> None:
        """To peers that are connected; nothing is kept for others."""
        for to, message in ((each.to, each.message) for each in sends):
            link = self._links.get(to)
            if link is not None and self._links.is_up(to):
                link.wire.send(Aside(encode(message)))

    # Distances -------------------------------------------------------------------------------------------------

    def _measure(self, now: float) -> None:
        """The longest ago first; a few at a time, so that measurements do not delay each other."""
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
        found = await distances(self._broker.name, self._epoch, places)
        for broker, seconds in found.items():
            self._measured_at[broker] = self._clock()
            if seconds is not None:
                self._rounds.setdefault(broker, deque(maxlen=KEPT)).append(seconds)

    async def stop(self, *, is_fatal: bool) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring])
