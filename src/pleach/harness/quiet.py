"""Whether a network of processes has come to rest, from what its brokers say of themselves at one look after another.

At rest nothing is queued anywhere and nothing moves. With leases something is always queued somewhere: renewals go on
for ever. There a link counts as empty if it was so at any look since the last movement: an event that is still under
way has to pass a broker, and that is movement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

POLLS = 3  # in a row, without any unrest


class Quiet:
    def __init__(self, *, is_leased: bool) -> None:
        self._is_leased = is_leased
        self._moved: tuple[Any, ...] = ()
        self._emptied: set[tuple[str, str]] = set()  # links, since the last movement
        self._polls = 0
        self.unrest: list[str] = []  # as of the last look

    @property
    def is_reached(self) -> bool:
        return self._polls >= POLLS

    def look(self, found: Sequence[dict[str, Any]], records: int, unrest: Sequence[str]) -> None:
        """`found`: what each broker says. `records`: of the trace, so far. `unrest`: what else there is to wait for."""
        counted = [(s["counters"]["publishes"], s["counters"]["matches"], s["counters"]["deliveries"]) for s in found]
        moved = (records, *counted)
        if moved != self._moved or not self._is_leased:
            self._emptied.clear()
        self.unrest = [*unrest, *self._links(found)]
        self._polls = self._polls + 1 if moved == self._moved and not self.unrest else 0
        self._moved = moved

    def _links(self, found: Sequence[dict[str, Any]]) -> list[str]:
        unrest = []
        for status in found:
            for peer, link in {**status["neighbours"], **status["clients"]}.items():
                ends = (status["name"], peer)
                if not link["queued"]:
                    self._emptied.add(ends)
                if ends not in self._emptied or not link["up"]:
                    unrest.append(f"{status['name']}-{peer}: {link['queued']} queued, up: {link['up']}")
        return unrest
