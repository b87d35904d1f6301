"""Deferred unsubscriptions (S1 §4.4.1; docs/protocols/deferred.md): the strawman, with a delay before r is removed.

A long delay means fewer events lost, more delivered twice; a short one the reverse. Ideal is the time in which the
subscriptions over a arrive where those over r are withdrawn, which nobody knows.
"""

from __future__ import annotations

from pleach.effects import Effect
from pleach.overlay.exchange.cycle import Cycle
from pleach.overlay.exchange.strawman import Strawman
from pleach.overlay.layers import Layers

DELAY_SECONDS = 0.25  # in which subscriptions pass ten links of 25 ms


class Deferred(Strawman):
    def __init__(self, layers: Layers, cycle: Cycle, ordering: str, *, delay: float = DELAY_SECONDS) -> None:
        super().__init__(layers, cycle, ordering)
        self._delay = delay

    def _at_old_link(self) -> list[Effect]:
        return self._remove_after(self._delay)
