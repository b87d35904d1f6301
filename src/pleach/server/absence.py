"""Clients that are not connected: how long a broker keeps their sessions, and how many.

    connection lost ──▶ absent ──▶ connected again                  nothing has happened
                            └──▶ away for too long ──▶ forgotten    subscriptions, outbox, session, row on disk

Rule 1: a client that has subscribed, advertised or published is kept for `client_absence_seconds`. So is one that has
        moved to another broker and has not taken all that it got here before: nobody else has that.
Rule 2: a client that has done none of that is *vacant*. The last `vacant` of these are kept, so that names which
        connect once and never again do not pile up; they do not count as clients meanwhile.
Rule 3: a forgotten client that comes back is told that its session is lost; it starts anew.
Rule 4: what is kept for a client may be read without its connection (readers.py). A client that is read is not away.
Rule 5: a client that comes over from another broker is away until it connects: it may have died on the way.

Time counts from the moment that the connection was lost, or from the broker's start: a broker that was down for a day
gives its clients another one.
"""

from __future__ import annotations

import logging
import math

from pleach.core.links.batch import Batch
from pleach.core.links.frames import ByeReason, Hello
from pleach.core.links.session import SessionPhase
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Node
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port
from pleach.server.parts import NodeParts

FORGOTTEN_AT_ONCE_MAX = 64  # in a tick: each may take back thousands of subscriptions, and the others wait

log = logging.getLogger(__name__)


class AbsentClients(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._endpoint, self._gate, self._committer = parts.endpoint, parts.gate, parts.committer
        self._directory, self._links = parts.directory, parts.links
        self._counters, self._settings = parts.counters.clients, parts.settings
        self._since: dict[Node, float] = {}  # clients that are kept by rule 1; the longest absent first
        self._vacant: dict[Node, None] = {}
        self._read_at: dict[Node, float] = {}  # clients without a connection whose outboxes are read
        self._now = parts.clock()
        self._begin(self._now)

    def _begin(self, now: float) -> None:
        """After a recovery: nobody is connected yet. A client that is attached may have published."""
        for peer in sorted(filter(self._is_client, self._endpoint.sessions)):
            if peer in self._gate.broker.sessions or self._is_owed(peer):
                self._since[peer] = now
            else:
                self._vacant[peer] = None

    def _is_owed(self, peer: Node) -> bool:
        """Whether it has moved to another broker, and this one has something for it that no other broker has."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and self._endpoint.sessions[peer].unconfirmed > 0

    def _is_client(self, peer: Node) -> bool:
        """Brokers are never forgotten: their sessions continue after any absence."""
        return not self._directory.is_broker(peer)

    @property
    def clients(self) -> int:
        """Clients that count for the limit: all peers but brokers and the vacant."""
        sessions = self._endpoint.sessions
        linked = {*self._gate.broker.router.neighbours, *self._endpoint.upkeep.links} & sessions.keys()
        return len(sessions) - sum(map(self._directory.is_broker, linked)) - len(self._vacant)

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        limit, peer = self._settings().limits.clients, hello.node
        is_known = port is Port.PEERS or peer in self._gate.broker.sessions or peer in self._links
        if is_known or self.clients < limit:
            return None
        return HelloRefusal(ByeReason.REFUSED, f"{self._gate.name} has {limit} clients, its limit")

    def connected(self, peer: Node) -> None:
        self._read_at.pop(peer, None)
        self._since.pop(peer, None)
        self._vacant.pop(peer, None)

    def disconnected(self, peer: Node, now: float) -> None:
        """A client has no connection any more, or its session has ended while it had none."""
        if not self._is_client(peer):
            return
        self.connected(peer)
        has_asked = self._gate.broker.sessions.has_names(peer) or peer in self._gate.publishers
        if has_asked or self._is_owed(peer):
            self._since[peer] = now
        else:
            self._vacant[peer] = None

    def committed(self, batch: Batch, now: float) -> None:
        """Links that are wanted from now on: those to clients have nobody at the other end yet."""
        for peer, _ in batch.dial:
            session = self._endpoint.sessions.get(peer)
            if session is not None and session.phase is SessionPhase.DOWN:
                self.disconnected(peer, now)

    def expel(self, peer: Node, reason: str, now: float) -> None:
        """End the session of a client that cannot be waited for; if it comes back it is told."""
        self._endpoint.expel(peer, reason, now=now)
        if peer not in self._links:
            self.disconnected(peer, now)

    def was_read(self, peer: Node, now: float) -> None:
        """Somebody reads what is kept for a client that has no connection."""
        self.disconnected(peer, now)
        self._read_at[peer] = now

    def is_here(self, peer: Node, seconds: float) -> bool:
        """Connected, or read not longer ago than this."""
        session = self._endpoint.sessions.get(peer)
        is_up = session is not None and session.phase is SessionPhase.UP
        return is_up or self._now - self._read_at.get(peer, -math.inf) <= seconds

    def tick(self, now: float) -> None:
        """Forget clients that are not waited for any longer."""
        self._now = now
        limits = self._settings().limits
        surplus = max(0, len(self._vacant) - limits.vacant)
        vacant = list(self._vacant)[: min(surplus, FORGOTTEN_AT_ONCE_MAX)]
        expired: list[Node] = []
        for peer, since in self._since.items():
            if now - since <= limits.client_absence_seconds or len(expired) == FORGOTTEN_AT_ONCE_MAX:
                break
            expired.append(peer)
        for peer in expired:
            self._say(peer, now)
        gone = [*vacant, *expired]
        for peer in gone:
            self._end(peer, now)
        self._endpoint.forget(gone)
        self._counters.forgotten += len(vacant)
        self._counters.expired += len(expired)
        if gone:
            self._committer.seal()  # before one of them can come back

    def _say(self, peer: Node, now: float) -> None:
        names = len(self._gate.broker.sessions.subscriptions(peer)) if peer in self._gate.broker.sessions else 0
        kept = self._endpoint.sessions[peer].outbox_bytes
        away = now - self._since[peer]
        log.warning("forgotten: %s, away for %.0f s; %d subscriptions, %s bytes for it", peer, away, names, f"{kept:,}")

    def _end(self, peer: Node, now: float) -> None:
        self.connected(peer)
        if peer in self._gate.broker.sessions:
            self._endpoint.expel(peer, f"{peer} was away for too long", now=now)
        self._gate.forget(peer)
