"""Renewal rounds since the last tick: which sources have completed one. Leases expire entries on this evidence.

A round contains all entries of a neighbour or a client. An entry expires after its source completed a renewal round
without it. Entries of a source without a complete round, because it is absent, slow or busy, do not expire.

    tick ──────── begins … ends ──────── tick      complete: entries that it did not contain expire
    ── begins ── tick ── ends ──────────           incomplete: renewals before the tick would be missing
"""

from __future__ import annotations

from collections.abc import Mapping

from pleach.core.messages import Node


class RenewalRounds:
    def __init__(self) -> None:
        self._is_whole: dict[Node, bool] = {}  # sources whose round began since the last tick

    def begin(self, source: Node) -> None:
        self._is_whole.setdefault(source, False)

    def end(self, source: Node) -> None:
        if source in self._is_whole:
            self._is_whole[source] = True

    def forget(self, source: Node) -> None:
        self._is_whole.pop(source, None)

    def is_whole(self, source: Node) -> bool:
        return self._is_whole.get(source, False)

    def tick(self) -> None:
        self._is_whole.clear()

    def capture(self) -> dict[Node, bool]:
        return dict(sorted(self._is_whole.items()))

    def restore(self, is_whole: Mapping[Node, bool]) -> None:
        self._is_whole = dict(is_whole)
