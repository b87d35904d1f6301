"""Of whom a whole round of renewals has come since the last tick: the evidence that leases act on.

A round says again all that a neighbour or a client wants. What a whole round has not brought is not wanted. A peer of
whom no whole round has come, because it is away, or slow, or has much else to say before, is not judged at all.

    tick ──────── begins … ends ──────── tick      whole: what it did not bring may go
    ── begins ── tick ── ends ──────────           in part: what came before the tick would be missing
"""

from __future__ import annotations

from collections.abc import Mapping

from pleach.core.messages import Node


class RenewalRounds:
    def __init__(self) -> None:
        self._is_whole: dict[Node, bool] = {}  # of those whose round has begun since the last tick

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
