"""What waits at a broker for others to take it: how much, who is sent away for it, and whom it does not read from.

Rule 1: a client whose outbox is above its limit is sent away.
Rule 2: above the limit of all outboxes together nobody who publishes is read from, until it has come down. Clients
        that take nothing meanwhile are sent away, the fullest first.
Rule 3: a publisher that has much to take is read from in short breaths, as its confirmations come behind that.
Rule 4: what a reconfiguration holds weighs like what is in outboxes. Nobody is sent away for it, and all publishers are
        read from in short breaths, as its end may depend on what one of them says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pleach.core.links.frames import Ping
from pleach.core.messages import Node
from pleach.server.link import Link
from pleach.server.stalled_consumers import StalledConsumers

if TYPE_CHECKING:
    from pleach.server.node import BrokerNode

BREATH_SECONDS = 0.05

log = logging.getLogger(__name__)


class Pressure:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self.outbox_bytes = 0  # of all links together
        self.of_peer: dict[Node, int] = {}
        self.is_tight = False
        self._standstill = StalledConsumers()

    def weigh(self, peers: Iterable[Node]) -> None:
        for peer in peers:
            session = self._node.endpoint.sessions.get(peer)
            self.outbox_bytes -= self.of_peer.pop(peer, 0)
            if session is not None:
                self.outbox_bytes += session.outbox_bytes
                self.of_peer[peer] = session.outbox_bytes

    def evict(self, grown: Sequence[Node]) -> bool:
        """Send clients away that have taken too little; whether there was one."""
        limit = self._node.settings.limits.outbox_bytes_per_client
        slow = [peer for peer in grown if self.of_peer[peer] > limit and not self._node.directory.is_broker(peer)]
        for peer in slow:
            self._send_away(peer, f"{limit:,} are kept for a client")
        return bool(slow)

    def tick(self, now: float) -> None:
        for peer, link in self._node.links.items():
            if link.is_paused and self._node.is_up(peer):  # we do not read from it: its silence says nothing
                self._node.endpoint.receive(peer, Ping(), now=now)
                self._let_breathe(peer, link, now)

    def send_idle_away(self, now: float) -> None:
        """To be called once who was silent has been noticed."""
        if not self.is_tight:
            return
        idle = self._standstill.idle(self._node.endpoint.sessions, now)
        for peer in idle:
            if self.outbox_bytes > self._node.settings.limits.outbox_bytes_low:
                self._send_away(peer, "publishers cannot wait for it any longer")
        if idle:
            self._begin_standstill(now)

    def _send_away(self, peer: Node, why: str) -> None:
        reason = f"{peer} has not taken {self.of_peer[peer]:,} bytes; {why}"
        log.warning("sent away: %s", reason)
        self._node.counters.evicted += 1
        self._node.expel(peer, reason)
        self.weigh([peer])

    def relieve(self, now: float) -> None:
        limits, waiting = self._node.settings.limits, self.outbox_bytes + self._node.gate.held_bytes
        if waiting > limits.outbox_bytes_high and not self.is_tight:
            self.is_tight = self._node.gate.is_tight = True
            self._begin_standstill(now)
            log.warning("%s bytes wait to be taken: publishers are not read from", f"{waiting:,}")
        elif waiting <= limits.outbox_bytes_low and self.is_tight:
            self.is_tight = self._node.gate.is_tight = False
            log.info("publishers are read from again")
            for link in self._node.links.values():
                link.wire.resume_reading()
                link.is_paused = False
        if self.is_tight:
            self._pause_publishers(now)

    def _begin_standstill(self, now: float) -> None:
        self._standstill.begin(self._node.endpoint.sessions, self._node.broker.router.neighbours, now)

    def _let_breathe(self, peer: Node, link: Link, now: float) -> None:
        share = self._node.settings.limits.outbox_bytes_low // (len(self._node.gate.publishers) + 1)
        if self.of_peer[peer] > share or self._node.gate.held_bytes:  # else it would not be tight for its sake
            link.breath_until = now + BREATH_SECONDS
            link.is_paused = False
            link.wire.resume_reading()

    def _pause_publishers(self, now: float) -> None:
        for peer in self._node.gate.publishers:
            link = self._node.links.get(peer)
            if link is not None and not link.is_paused and link.breath_until <= now and self._node.is_up(peer):
                link.is_paused = True
                link.wire.pause_reading()
