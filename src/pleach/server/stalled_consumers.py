"""Who takes nothing while publishers have to wait: whom a broker may send away for the others' sake."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pleach.core.links.session import Session
from pleach.core.messages import Node

SECONDS_MAX = 10.0  # that publishers wait for one who takes nothing


class StalledConsumers:
    def __init__(self) -> None:
        self._since = 0.0
        self._first: dict[Node, int] = {}  # how far each was then

    def begin(self, sessions: Mapping[Node, Session], spared: Collection[Node], now: float) -> None:
        self._since = now
        self._first = {p: s.first for p, s in sessions.items() if s.unconfirmed and p not in spared}

    def idle(self, sessions: Mapping[Node, Session], now: float) -> list[Node]:
        """Those who have taken nothing for too long, the fullest first."""
        if now - self._since <= SECONDS_MAX:
            return []
        still = [p for p, first in self._first.items() if p in sessions and sessions[p].first == first]
        return sorted(still, key=lambda p: (-sessions[p].outbox_bytes, p))
