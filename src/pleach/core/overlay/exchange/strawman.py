"""The strawman approach (S1 §4.4.1, S2 §4.1; docs/protocols/strawman.md): subscribe over a, unsubscribe over r.

    u          …          x ──r── y          …          v
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        x, then y: forgets all that came over r
    │ ─────────────────── activate ──────────────────▶ │         u, then v: tells the far end all that it knows

The ends of a and those of r act on their own, and at the same time: nobody waits for subscriptions to arrive before
those that they replace are withdrawn, nor for these before new ones lead events both ways. Brokers have no common
clock. That `begin` did not run along the cycle just before the subscriptions, which would be coordination, u waits
about as long as it takes to r: a share of the time that the lock took for the whole cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.effects import Effect, SetTimer
from pleach.core.messages import Activate, Begin, Message, Node
from pleach.core.overlay.exchange.contract import PART
from pleach.core.overlay.exchange.part import LinkExchange
from pleach.core.overlay.seam import Reaction


class Strawman(LinkExchange):
    def begin(self, lock_seconds: float, /) -> Reaction:
        to_the_middle_of_r = (self.cycle.cut + 0.5) / len(self.cycle.path)
        self.ends.link_after = lock_seconds * to_the_middle_of_r
        return Reaction([*self.resume(), *self._begin()])

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Activate():
                return Reaction(self._connect())
            case Begin():
                return Reaction(self._begin())
        return super().handle(sender, message)

    def due(self) -> Reaction:
        return Reaction(self._activate())

    def resume(self) -> Sequence[Effect]:
        after, is_linked = self.ends.link_after, self.ends.is_linked
        return [] if after is None or is_linked else [SetTimer(PART, after)]

    def _begin(self) -> list[Effect]:
        return [*self._pass_begin(), *(self._remove() if self._over_old else [])]
