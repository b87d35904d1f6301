"""Coordinated unsubscriptions (S1 §4.4.1; docs/protocols/coordinated.md): r is removed behind what comes over a.

    u          …          x ──r── y          …          v
    │ ─────────────── activate, flush(u) ────────────▶ │         each end of a: all that it knows, and a flush behind it
    │ ◀───────────────────  flush(v)  ──────────────── │
    │──── flush(v) ─ … ──▶│       │◀ … ── flush(u) ─────│        through all of the other side's tree
                      removes   removes

A flush comes to an end of r behind the subscriptions that replace those which that end then withdraws, so that no event
is lost; but until then events go both ways. S1 has a timeout beside it, for links that vanish; ours do not.
"""

from __future__ import annotations

from pleach.core.effects import Effect, Send
from pleach.core.messages import Activate, Done, Flush, Message, Node, Removed
from pleach.core.overlay.exchange.contract import Start, table
from pleach.core.overlay.exchange.crossing import NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import OF_NEW, OF_NONE, OF_OLD, CycleRole
from pleach.core.overlay.exchange.part import DONE_AT_NEW, LinkExchange
from pleach.core.overlay.seam import Reaction

# A broker without a disk that is started again is sent a flush anew, and passes it on although it knows of no exchange.
SENT_ANEW = table(
    (OF_NONE, PassingPhase.BEGUN, Flush),
    (OF_OLD, OldEnd.REMOVED, Flush),
    (OF_NEW, NewEnd.OPEN, Flush),
)


class Coordinated(LinkExchange):
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start, NewEnd.LINKED),
        (CycleRole.V, NewEnd.CLOSED, Activate, NewEnd.LINKED),
        (OF_NEW, NewEnd.LINKED, Flush, NewEnd.LINKED, NewEnd.OPEN),
        (OF_NONE, PassingPhase.LOCKED, Flush, PassingPhase.BEGUN),
        (OF_OLD, OldEnd.IN_USE, Flush, OldEnd.REMOVED),
        (OF_OLD, OldEnd.IN_USE, Removed, OldEnd.LEFT_BY_FAR),
        (OF_OLD, OldEnd.LEFT_BY_FAR, Flush, OldEnd.GONE),
        (OF_OLD, OldEnd.REMOVED, Removed, OldEnd.GONE),
        (OF_NONE, PassingPhase.BEGUN, Done),
        beside={**SENT_ANEW, **DONE_AT_NEW},
    )

    def _begin(self, _lock_seconds: float) -> Reaction:
        return Reaction([*self._activate(), self._flush()])

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Activate():
                return Reaction([*self._connect(), self._flush()])
            case Flush():
                return Reaction(self._flushed(sender, message))
        return super()._react(sender, message)

    def _flush(self) -> Send:
        """Behind all that this end of a has told the other one."""
        return Send(self._over_new, Flush(self.cycle.operation, self.name))

    def _flushed(self, sender: Node, message: Flush) -> list[Effect]:
        """Pass it on, on this side of r only. An end of r removes r: the flush is what it waited for."""
        self.state.between = PassingPhase.BEGUN
        router, cycle = self._context.router, self.cycle
        across = (sender, self._over_old)
        passed: list[Effect] = [Send(to, message) for to in router.neighbours if to not in across]
        if self._over_old:
            is_first = self.state.old in (OldEnd.IN_USE, OldEnd.LEFT_BY_FAR)
            return [*passed, *(self._remove() if is_first else [])]
        awaited = cycle.towards_old(self.name) or ""
        return [*passed, *router.ask_also(awaited, cycle.way_around(self.name))]
