"""Coordinated unsubscriptions (S1 §4.4.1; docs/protocols/coordinated.md): r is removed behind what comes over a.

    u          …          x ──r── y          …          v
    │ ─────────────── activate, flush(u) ────────────▶ │         each end of a: all that it knows, and a flush behind it
    │ ◀───────────────────  flush(v)  ──────────────── │
    │──── flush(v) ─ … ──▶│       │◀ … ── flush(u) ─────│        through all of the other side's tree
                      removes   removes

A flush comes to an end of r behind the subscriptions that replace those it withdraws then, so these are missed nowhere;
but until then events go both ways. S1 has a timeout beside it, for links that vanish; ours do not.
"""

from __future__ import annotations

from pleach.core.effects import Effect, Send
from pleach.core.messages import Activate, Flush, Message, Node
from pleach.core.overlay.exchange.part import LinkExchange
from pleach.core.overlay.seam import Reaction


class Coordinated(LinkExchange):
    def begin(self, _lock_seconds: float, /) -> Reaction:
        return Reaction([*self._activate(), self._flush()])

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Activate():
                return Reaction([*self._connect(), self._flush()])
            case Flush():
                return Reaction(self._flushed(sender, message))
        return super().handle(sender, message)

    def _flush(self) -> Send:
        """Behind all that this end of a has told the other one."""
        return Send(self._over_new, Flush(self.cycle.operation, self.name))

    def _flushed(self, sender: Node, message: Flush) -> list[Effect]:
        """Pass it on, on this side of r only; an end of r has what it waited for."""
        router, cycle = self._context.router, self.cycle
        across = (sender, self._over_old)
        passed: list[Effect] = [Send(to, message) for to in router.neighbours if to not in across]
        if self._over_old:
            return [*passed, *self._remove()]
        awaited = cycle.towards_old(self.name) or ""
        return [*passed, *router.ask_also(awaited, cycle.way_around(self.name))]
