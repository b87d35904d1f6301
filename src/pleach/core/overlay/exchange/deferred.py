"""Deferred unsubscriptions (S1 §4.4.1; docs/protocols/deferred.md): subscribe over a, and after a delay unsubscribe.

    u          …          x ──r── y          …          v
    │ ─────────────────── activate ──────────────────▶ │         u, then v: tells the far end all that it knows
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        x, then y: after the delay, forgets what came over r

A long delay means fewer events lost, more delivered twice; a short one the reverse. Ideal is the time in which the
subscriptions over a arrive where those over r are withdrawn, which nobody knows.
"""

from __future__ import annotations

from pleach.core.effects import Effect
from pleach.core.messages import Activate, Begin, Message, Node
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.part import LinkExchange
from pleach.core.overlay.seam import Reaction

DELAY_SECONDS = 0.25  # in which subscriptions pass ten links of 25 ms


class Deferred(LinkExchange):
    def __init__(self, context: BrokerContext, cycle: Cycle, ordering: str, *, delay: float = DELAY_SECONDS) -> None:
        super().__init__(context, cycle, ordering)
        self._delay = delay

    def begin(self, _lock_seconds: float, /) -> Reaction:
        return Reaction([*self._activate(), *self._begin()])

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Activate():
                return Reaction(self._connect())
            case Begin():
                return Reaction(self._begin())
        return super().handle(sender, message)

    def _begin(self) -> list[Effect]:
        return [*self._pass_begin(), *(self._remove_after(self._delay) if self._over_old else [])]
