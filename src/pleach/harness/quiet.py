"""Detection of a quiet network of processes, from successive polls of its brokers.

A network is quiet when nothing is queued and no counter changes. With leases something is always queued somewhere,
since renewals never end. There a link counts as empty if it was empty at any poll since the last change of a counter:
an event that is still under way has to pass a broker, and that changes a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

POLLS = 3  # in a row, all of them quiet


class Quiet:
    def __init__(self, *, is_leased: bool) -> None:
        self._is_leased = is_leased
        self._moved: tuple[Any, ...] = ()
        self._emptied: set[tuple[str, str]] = set()  # links, since the last change
        self._polls = 0
        self.unrest: list[str] = []  # as of the last poll

    @property
    def is_reached(self) -> bool:
        return self._polls >= POLLS

    def look(self, found: Sequence[dict[str, Any]], records: int, unrest: Sequence[str]) -> None:
        """`found`: the status of each broker. `records`: of the trace, so far. `unrest`: what else is not quiet."""
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
