"""Deferred unsubscriptions (S1 §4.4.1; docs/protocols/deferred.md): the strawman, with a delay before r is removed.

A long delay means fewer events lost, more delivered twice; a short one the reverse. Ideal is the time in which the
subscriptions over a arrive where those over r are withdrawn, which nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.effects import Effect, SetTimer
from pleach.overlay.exchange.crossing import Ends
from pleach.overlay.exchange.cycle import Cycle
from pleach.overlay.exchange.machine import PART
from pleach.overlay.exchange.strawman import Strawman
from pleach.overlay.layers import Layers
from pleach.overlay.seam import Handled

DELAY_SECONDS = 0.25  # in which subscriptions pass ten links of 25 ms


class DeferredEnds(Ends):
    is_waiting: bool = False


class Deferred(Strawman):
    ends: DeferredEnds

    def __init__(self, layers: Layers, cycle: Cycle, ordering: str, *, delay: float = DELAY_SECONDS) -> None:
        super().__init__(layers, cycle, ordering)
        self._delay = delay

    def _fresh(self) -> Ends:
        return DeferredEnds()

    def _at_old_link(self) -> list[Effect]:
        self.ends.is_waiting = True
        return [SetTimer(PART, self._delay)]

    def due(self) -> Handled:
        self.ends.is_waiting = False
        return Handled(self._remove())

    def resume(self) -> Sequence[Effect]:
        return [SetTimer(PART, self._delay)] if self.ends.is_waiting else []
