"""The strawman approach (S1 §4.4.1, S2 §4.1; docs/protocols/strawman.md): subscribe over a, unsubscribe over r.

    u          …          x ──r── y          …          v
    │ ─────────────────── activate ──────────────────▶ │         u, then v: tells the far end all that it knows
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        x, then y: forgets all that came over r

The ends of a and those of r act on their own: nobody waits for subscriptions to arrive before those that they replace
are withdrawn, nor for these before new ones lead events both ways.
"""

from __future__ import annotations

from pleach.effects import Effect, Send
from pleach.messages import Activate, Begin, Message, Node
from pleach.overlay.exchange.part import LinkExchange
from pleach.overlay.seam import Handled


class Strawman(LinkExchange):
    def begin(self) -> Handled:
        activate = Send(self.cycle.v, Activate(self.cycle.operation))
        return Handled([activate, *self._connect(), *self._begin()])

    def handle(self, sender: Node, message: Message) -> Handled:
        match message:
            case Activate():
                return Handled(self._connect())
            case Begin():
                return Handled(self._begin())
        return super().handle(sender, message)

    def _begin(self) -> list[Effect]:
        """Along the cycle to x, and over r to y."""
        if self.name == self.cycle.x:
            return [Send(self.cycle.y, Begin(self.cycle.operation)), *self._at_old_link()]
        return self._at_old_link() if self.name == self.cycle.y else self._pass_begin()

    def _at_old_link(self) -> list[Effect]:
        """What an end of r does when it hears of the exchange."""
        return self._remove()
