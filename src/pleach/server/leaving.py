"""Removal from the tree: a broker waits until its clients have gone where they are sent, and then its process ends.

    removed ── clients say farewell ──▶ out of the tree ── the neighbour has confirmed it ──▶ the process ends

Rule 1: a client that confirms nothing for `leave_seconds` is given up: it is detached, and told if it comes back in
        time. Until then its new broker holds what belongs to it, and takes part in no other change of the tree.
        A client that was away when the removal was asked for, and that the operator has said not to wait for, is given
        up at once if it is still away: not sooner, as until clients are handed over a removal may be refused.
Rule 2: clients that have detached, or come back without memory, say no farewell; this broker says it in their name.
Rule 3: the process ends once the neighbour knows that this broker has left. Clients that have said farewell and do not
        confirm the rest are waited for `END_SECONDS_MAX`.
Rule 4: a broker that is started after its neighbour has confirmed its removal stays: it was started to join anew. One
        that was promoted from a copy was started by nobody: its machine was lost while it ended, and it ends here,
        unless it has clients, who have come since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pleach.core.links.frames import ByeReason, Hello
from pleach.core.links.session import SessionPhase
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Farewell, Node
from pleach.core.overlay.membership.machine import Membership
from pleach.server.absence import AbsentClients
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port
from pleach.server.parts import NodeParts

END_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class ClientProgress(NamedTuple):
    """How far a client was when it last took something."""

    confirmed: int
    since: float


class Leaving(Feature):
    def __init__(
        self, parts: NodeParts, absent: AbsentClients, on_end: Callable[[str], None], *, is_promoted: bool = False
    ) -> None:
        """`on_end`: called, with the reason, when the process may end. `is_promoted`: from a copy."""
        self._endpoint, self._gate, self._settings = parts.endpoint, parts.gate, parts.settings
        self._membership = parts.broker.machine(Membership)
        self._absent = absent
        self._on_end = on_end
        self._progress: dict[Node, ClientProgress] = {}
        self._left_at: float | None = None
        is_started = not is_promoted or bool(parts.broker.sessions.clients)
        self._is_history = is_started and bool(self._left) and not self._unconfirmed(self._left)  # rule 4

    @property
    def waits_for(self) -> list[Node]:
        """Clients that have been told where to go, and have not gone."""
        return sorted(self._membership.departing) if self._membership else []

    @property
    def has_left(self) -> bool:
        """Out of the tree and without clients, and about to end."""
        return bool(self._left) and not self._is_history

    @property
    def is_known(self) -> bool:
        """Whether the neighbour knows that this broker has left: then nobody needs anything of it."""
        return self.has_left and not self._unconfirmed(self._left)

    @property
    def _left(self) -> Node:
        """The neighbour that is told."""
        return self._membership.left if self._membership else ""

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        if port is Port.PEERS or not self.has_left or hello.node in self._endpoint.upkeep.links:
            return None
        return HelloRefusal(ByeReason.REFUSED, f"{self._gate.name} has been removed from the tree")

    def status(self) -> dict[str, object]:
        return {"leaving": {"waits_for": self.waits_for, "has_left": self.has_left}}

    def tick(self, now: float) -> None:
        unawaited = self._membership.unawaited if self._membership else frozenset()
        for client in self.waits_for:
            if self._is_given_up(client, unawaited, now):
                self._endpoint.request(Farewell(), sender=client, now=now)
        self._is_history = self._is_history and bool(self._left)
        if self.has_left:
            self._end_if_known(now)

    def _is_given_up(self, client: Node, unawaited: frozenset[Node], now: float) -> bool:
        patience = self._settings().limits.leave_seconds
        if client in self._gate.detached:
            return True
        if client in unawaited and not self._absent.is_here(client, patience):
            self._give_up(client, "is away, and is not waited for", now)
            return True
        confirmed = self._endpoint.admit(client).first
        before = self._progress.get(client)
        if before is None or before.confirmed != confirmed:
            self._progress[client] = ClientProgress(confirmed, now)
            return False
        if now - before.since <= patience:
            return False
        self._give_up(client, f"has taken nothing for {now - before.since:.0f} s", now)
        return True

    def _give_up(self, client: Node, why: str, now: float) -> None:
        log.warning("given up: %s %s, and is detached", client, why)
        self._endpoint.expel(client, f"{self._gate.name} has left the tree, and cannot wait any longer", now=now)

    def _end_if_known(self, now: float) -> None:
        if self._left_at is None:
            self._left_at = now
            log.info("removed from the tree; this process ends once %s has confirmed it", self._left)
        is_all_said = not any(map(self._is_here, self._endpoint.upkeep.links)) or now - self._left_at > END_SECONDS_MAX
        if is_all_said and self.is_known:
            self._on_end(
                f"{self._gate.name} is out of the tree, and its clients are served elsewhere: this process ends"
            )

    def _is_here(self, peer: Node) -> bool:
        """Whether a former link is still in use: something on it is unconfirmed, or its session is up."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and (self._unconfirmed(peer) > 0 or self._endpoint.sessions[peer].phase is SessionPhase.UP)

    def _unconfirmed(self, peer: Node) -> int:
        session = self._endpoint.sessions.get(peer)
        return session.unconfirmed if session is not None else 0
