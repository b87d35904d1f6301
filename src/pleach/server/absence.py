"""Clients that are not connected: how long a broker keeps what it has of them, and of how many.

    connection lost ──▶ absent ──▶ connected again                  nothing has happened
                            └──▶ away for too long ──▶ forgotten    subscriptions, outbox, session, row on disk

Rule 1: who has asked for something (subscribed, advertised, published) is waited for `client_absence_seconds`. So is
        who has moved to another broker, and has not taken all that it got here before: nobody else has that.
Rule 2: who has not is *vacant*: nothing of it would be missed. The last `vacant` of these are kept, so that names which
        come once and never again do not pile up; they take no client's place meanwhile.
Rule 3: a forgotten client that comes back is told that its session is lost; it starts anew.
Rule 4: what is kept for a client may be read without its connection (readers.py). Whoever reads is not away.

Rule 5: a client that comes over from another broker is away until it comes: it may have died on the way.

Time counts from the moment that the connection was lost, or from the broker's start: a broker that was down for a day
gives its clients another one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import SessionPhase
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Node
from pleach.server.gate import Gate
from pleach.server.metrics import Counters
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import BrokerLimits

FORGOTTEN_AT_ONCE_MAX = 64  # in a tick: each may take back thousands of subscriptions, and the others wait

log = logging.getLogger(__name__)


class Absence:
    def __init__(
        self, endpoint: Endpoint, gate: Gate, directory: PeerDirectory, counters: Counters, *, now: float
    ) -> None:
        self._endpoint = endpoint
        self._gate = gate
        self._directory = directory
        self._counters = counters
        self._since: dict[Node, float] = {}  # who has something to come back to; the longest absent first
        self._vacant: dict[Node, None] = {}
        self._read_at: dict[Node, float] = {}  # clients without a connection that readers stand for
        self._now = now
        self._begin(now)

    def _begin(self, now: float) -> None:
        """After a recovery: nobody is connected yet. Who is attached may have published, for all we know."""
        for peer in sorted(filter(self._is_client, self._endpoint.sessions)):
            if peer in self._gate.broker.sessions or self._is_owed(peer):
                self._since[peer] = now
            else:
                self._vacant[peer] = None

    def _is_owed(self, peer: Node) -> bool:
        """Whether it has gone to another broker, and we have something for it that no other broker has."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and self._endpoint.sessions[peer].unconfirmed > 0

    def _is_client(self, peer: Node) -> bool:
        """Brokers are never forgotten: links to them come and go, and go on where they were."""
        return not self._directory.is_broker(peer)

    @property
    def clients(self) -> int:
        """Everybody that takes a client's place: all but brokers and the vacant."""
        sessions = self._endpoint.sessions
        linked = {*self._gate.broker.router.neighbours, *self._endpoint.upkeep.links} & sessions.keys()
        return len(sessions) - sum(map(self._directory.is_broker, linked)) - len(self._vacant)

    def left(self, peer: Node, now: float) -> None:
        """A client has no connection any more, or nothing to come back to."""
        if not self._is_client(peer):
            return
        self.came(peer)
        has_asked = self._gate.broker.sessions.has_names(peer) or peer in self._gate.publishers
        if has_asked or self._is_owed(peer):
            self._since[peer] = now
        else:
            self._vacant[peer] = None

    def sent_here(self, peers: Iterable[Node], now: float) -> None:
        """Links to these are wanted from now on; those to clients have nobody at the other end yet."""
        for peer in peers:
            session = self._endpoint.sessions.get(peer)
            if session is not None and session.phase is SessionPhase.DOWN:
                self.left(peer, now)

    def read(self, peer: Node, now: float) -> None:
        """Somebody reads what is kept for a client that has no connection."""
        self.left(peer, now)
        self._read_at[peer] = now

    def is_here(self, peer: Node, seconds: float) -> bool:
        """Connected, or read not longer ago than this."""
        session = self._endpoint.sessions.get(peer)
        is_up = session is not None and session.phase is SessionPhase.UP
        return is_up or self._now - self._read_at.get(peer, -math.inf) <= seconds

    def came(self, peer: Node) -> None:
        self._read_at.pop(peer, None)
        self._since.pop(peer, None)
        self._vacant.pop(peer, None)

    def expire(self, limits: BrokerLimits, now: float) -> bool:
        """Forget whoever is not waited for any longer; whether there was anybody. The batch must be taken then."""
        self._now = now
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
        return bool(gone)

    def _say(self, peer: Node, now: float) -> None:
        names = len(self._gate.broker.sessions.subscriptions(peer)) if peer in self._gate.broker.sessions else 0
        kept = self._endpoint.sessions[peer].outbox_bytes
        away = now - self._since[peer]
        log.warning("forgotten: %s, away for %.0f s; %d subscriptions, %s bytes for it", peer, away, names, f"{kept:,}")

    def _end(self, peer: Node, now: float) -> None:
        self.came(peer)
        if peer in self._gate.broker.sessions:
            self._endpoint.expel(peer, f"{peer} was away for too long", now=now)
        self._gate.forget(peer)
