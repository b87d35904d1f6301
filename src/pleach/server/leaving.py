"""A broker on its way out of the tree: it waits for its clients to go where they are sent, and then it ends.

    removed ── clients say farewell ──▶ out of the tree ── the neighbour has heard of it ──▶ the process ends

Rule 1: a client that takes nothing for `leave_seconds` is given up: it is detached, and told if it comes back in time.
        Until then its new broker holds what belongs to it, and takes part in no other change of the tree.
        One that was away when the removal was asked for, and that the operator has said not to wait for, is given up
        at once if it still is away: not sooner, as until its clients are handed over a removal may be refused.
Rule 2: clients that have detached, or come back without memory, say no farewell; it is said in their name.
Rule 3: the process ends once the neighbour knows that this broker has left. Clients that have said farewell and do not
        confirm the rest are waited for `END_SECONDS_MAX`.
Rule 4: a broker that is started after its neighbour has heard of its removal stays: it was started to join anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import SessionPhase
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Farewell, Node
from pleach.server.absence import Absence
from pleach.server.gate import Gate

END_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class ClientProgress(NamedTuple):
    """How far a client was when it last took something."""

    confirmed: int
    since: float


class Departure:
    def __init__(self, endpoint: Endpoint, gate: Gate, absence: Absence) -> None:
        self._endpoint = endpoint
        self._gate = gate
        self._absence = absence
        self._standing: dict[Node, ClientProgress] = {}
        self._left_at: float | None = None
        self._is_history = bool(self._left) and not self._unconfirmed(self._left)
        self.on_end: Callable[[], None] | None = None  # called when the process may end

    @property
    def waits_for(self) -> list[Node]:
        """Clients that have been told where to go, and have not gone."""
        return sorted(self._gate.departing)

    @property
    def has_left(self) -> bool:
        """Out of the tree and without clients, and about to end."""
        return bool(self._left) and not self._is_history

    @property
    def _left(self) -> Node:
        membership = self._gate.membership
        return "" if membership is None else membership.left

    def tick(self, patience: float, now: float) -> None:
        unawaited = self._gate.unawaited
        for client in self.waits_for:
            if self._is_given_up(client, unawaited, patience, now):
                self._endpoint.request(Farewell(), sender=client, now=now)
        self._is_history = self._is_history and bool(self._left)
        if self.has_left:
            self._end_if_known(now)

    def _is_given_up(self, client: Node, unawaited: frozenset[Node], patience: float, now: float) -> bool:
        if client in self._gate.detached:
            return True
        if client in unawaited and not self._absence.is_here(client, patience):
            self._give_up(client, "is away, and is not waited for", now)
            return True
        confirmed = self._endpoint.admit(client).first
        standing = self._standing.get(client)
        if standing is None or standing.confirmed != confirmed:
            self._standing[client] = ClientProgress(confirmed, now)
            return False
        if now - standing.since <= patience:
            return False
        self._give_up(client, f"has taken nothing for {now - standing.since:.0f} s", now)
        return True

    def _give_up(self, client: Node, why: str, now: float) -> None:
        log.warning("given up: %s %s, and is detached", client, why)
        self._endpoint.expel(client, f"{self._gate.name} has left the tree, and cannot wait any longer", now=now)

    def _end_if_known(self, now: float) -> None:
        if self._left_at is None:
            self._left_at = now
            log.info("removed from the tree; this process ends once %s has heard of it", self._left)
        is_all_said = not any(map(self._is_here, self._endpoint.upkeep.links)) or now - self._left_at > END_SECONDS_MAX
        if is_all_said and not self._unconfirmed(self._left) and self.on_end is not None:
            self.on_end()

    def _is_here(self, peer: Node) -> bool:
        """Whether there is more to say to it, or it has more to say."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and (self._unconfirmed(peer) > 0 or self._endpoint.sessions[peer].phase is SessionPhase.UP)

    def _unconfirmed(self, peer: Node) -> int:
        session = self._endpoint.sessions.get(peer)
        return session.unconfirmed if session is not None else 0
