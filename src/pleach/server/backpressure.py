"""Limits on what waits at a broker for its peers: clients that are too slow, and publishers that are too fast.

Rule 1: a client whose outbox is above its limit is expelled: its session ends, and it is told.
Rule 2: above the limit of all outboxes together publishers are not read from, until it has come down. Clients that take
        nothing for `STALLED_SECONDS_MAX` meanwhile are expelled, the fullest first.
Rule 3: a publisher that has much to take is read in bursts of `BURST_SECONDS`, as its confirmations come behind that.
Rule 4: what a reconfiguration or a movement holds counts like what is in outboxes. Nobody is expelled for it, and all
        publishers are read in bursts, as its end may depend on what one of them says.
Rule 5: above that limit new subscriptions are refused, too: each would leave more for neighbours to take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pleach.core.events.filter import Filter
from pleach.core.links.batch import Batch
from pleach.core.links.frames import Ping
from pleach.core.links.session import Session
from pleach.core.messages import Node
from pleach.core.mobility.machine import Mobility
from pleach.core.routing.client_state import weight
from pleach.server.absence import AbsentClients
from pleach.server.feature import Feature
from pleach.server.links import Pause, PeerLink
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts

BURST_SECONDS = 0.05
STALLED_SECONDS_MAX = 10.0  # that publishers wait for a client that takes nothing

log = logging.getLogger(__name__)


class StalledConsumers:
    """Clients that take nothing while publishers have to wait."""

    def __init__(self) -> None:
        self._since = 0.0
        self._first: dict[Node, int] = {}  # how far each had confirmed then

    def begin(self, sessions: Mapping[Node, Session], spared: Collection[Node], now: float) -> None:
        self._since = now
        self._first = {p: s.first for p, s in sessions.items() if s.unconfirmed and p not in spared}

    def idle(self, sessions: Mapping[Node, Session], now: float) -> list[Node]:
        """Those that have taken nothing for too long, the fullest first."""
        if now - self._since <= STALLED_SECONDS_MAX:
            return []
        still = [p for p, first in self._first.items() if p in sessions and sessions[p].first == first]
        return sorted(still, key=lambda p: (-sessions[p].outbox_bytes, p))


class Backpressure(Feature):
    def __init__(self, parts: NodeParts, absent: AbsentClients, *, quota: Callable[[Node], int] = lambda _: 0) -> None:
        """`quota`: bytes that may wait for a client, if less than the limit for all; 0: none."""
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._counters, self._settings = parts.directory, parts.counters.clients, parts.settings
        self._publishers, self._clock = parts.gate.publishers, parts.clock
        self._mobility = parts.broker.machine(Mobility)
        self._absent, self._quota = absent, quota
        self.outbox_bytes = 0  # of all links together
        self.of_peer: dict[Node, int] = {}
        self.is_tight = False
        self._stalled = StalledConsumers()
        self._update(self._endpoint.sessions)

    @property
    def held_bytes(self) -> int:
        """What waits here for the end of a reconfiguration, or of a movement."""
        return self._broker.seam.held_bytes + (self._mobility.kept_bytes if self._mobility else 0)

    def _update(self, peers: Iterable[Node]) -> None:
        for peer in peers:
            session = self._endpoint.sessions.get(peer)
            self.outbox_bytes -= self.of_peer.pop(peer, 0)
            if session is not None:
                self.outbox_bytes += session.outbox_bytes
                self.of_peer[peer] = session.outbox_bytes

    # Clients that are too slow -------------------------------------------------------------------------------

    def sealed(self, batch: Batch) -> bool:
        grown = {queued.peer for queued in batch.queued}
        self._update(sorted(grown | batch.progress.keys() | {*batch.forgotten}))
        if self._expel_slow(sorted(grown)):
            return True
        self._relieve()
        return False

    def _expel_slow(self, grown: Sequence[Node]) -> bool:
        """Expel clients that have taken too little; whether there was one."""
        slow = [
            peer for peer in grown if self.of_peer[peer] > self._limit(peer) and not self._directory.is_broker(peer)
        ]
        for peer in slow:
            self._expel(peer, f"{self._limit(peer):,} are kept for it", self._clock())
        return bool(slow)

    def _limit(self, client: Node) -> int:
        limit, quota = self._settings().limits.outbox_bytes_per_client, self._quota(client)
        return min(limit, quota) if quota else limit

    def _expel(self, peer: Node, why: str, now: float) -> None:
        reason = f"{peer} has not taken {self.of_peer[peer]:,} bytes; {why}"
        log.warning("sent away: %s", reason)
        self._counters.evicted += 1
        self._absent.expel(peer, reason, now)
        self._update([peer])

    def tick(self, now: float) -> None:
        """Once silent peers have been noticed: expel who has taken nothing for too long, the fullest first."""
        if not self.is_tight:
            return
        idle = self._stalled.idle(self._endpoint.sessions, now)
        for peer in idle:
            if self.outbox_bytes > self._settings().limits.outbox_bytes_low:
                self._expel(peer, "publishers cannot wait for it any longer", now)
        if idle:
            self._note_progress(now)

    def _note_progress(self, now: float) -> None:
        self._stalled.begin(self._endpoint.sessions, self._broker.router.neighbours, now)

    # Publishers that are too fast ----------------------------------------------------------------------------

    def settings_applied(self) -> None:
        self._relieve()

    def _relieve(self) -> None:
        """Stop reading from publishers, or go on, as the limits say."""
        limits, waiting, now = self._settings().limits, self.outbox_bytes + self.held_bytes, self._clock()
        if waiting > limits.outbox_bytes_high and not self.is_tight:
            self.is_tight = True
            self._note_progress(now)
            log.warning("%s bytes wait to be taken: publishers are not read from", f"{waiting:,}")
        elif waiting <= limits.outbox_bytes_low and self.is_tight:
            self.is_tight = False
            log.info("publishers are read from again")
            for link in self._links.values():
                link.resume(Pause.PRESSURE)
        if self.is_tight:
            self._pause_publishers(now)

    def _pause_publishers(self, now: float) -> None:
        for peer in self._publishers:
            link = self._links.get(peer)
            if link is not None and not link.paused_by and link.read_until <= now and self._links.is_up(peer):
                link.pause(Pause.PRESSURE)

    def before_tick(self, now: float) -> None:
        for peer, link in self._links.items():
            if Pause.PRESSURE in link.paused_by and self._links.is_up(peer):
                # It is not read from: its silence says nothing.
                self._endpoint.receive(peer, Ping(), now=now)
                self._read_burst(peer, link, now)

    def _read_burst(self, peer: Node, link: PeerLink, now: float) -> None:
        share = self._settings().limits.outbox_bytes_low // (len(self._publishers) + 1)
        if self.of_peer[peer] > share or self.held_bytes:  # else it is not the reason
            link.read_until = now + BURST_SECONDS
            link.resume(Pause.PRESSURE)

    # At the gate, and for operators --------------------------------------------------------------------------

    def refuse_name(self, sender: Node, wanted: Filter) -> str:
        names_max = self._settings().limits.subscriptions
        if self._broker.sessions.names + weight(wanted) > names_max:
            name = self._broker.name
            return f"{name} has {names_max:,} subscriptions and advertisements, its limit: try another broker"
        if self.is_tight:
            return f"too much waits to be taken at {self._broker.name}: try again later"
        return ""

    def status(self) -> dict[str, object]:
        return {"outbox_bytes": self.outbox_bytes, "publishers_paused": self.is_tight}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        return {"pleach_outbox_bytes": [MetricSample(self.outbox_bytes)]}
