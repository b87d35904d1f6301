"""Gates: every broker of the cycle holds new events until the old link has gone (docs/tutorials/own-protocol.md).

u          …          x ──r── y          …          v
│──── begin ─ … ─────▶│──────▶│──── … ─ begin ─────▶│        each closes its gate: events from off the cycle wait
│◀─── … ── begun ─────│◀──────│◀──── begun ─ … ─────│        … and those that were on the cycle have left it
│ ─────────── activate, flush …: as `coordinated` ──────────    no event is on the cycle that could go both ways
"""

from __future__ import annotations

from pleach.core.effects import Effect, Send
from pleach.core.messages import EVENTS_TO_BROKERS, Begin, Begun, Message, Node
from pleach.core.overlay.exchange.contract import Start, table
from pleach.core.overlay.exchange.coordinated import Coordinated
from pleach.core.overlay.exchange.crossing import CrossingSeam, Ends, NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import CycleRole
from pleach.core.overlay.seam import Hold, Passing, Reaction, Verdict


class GateEnds(Ends):
    is_closed: bool = False
    waiting: tuple[Node, ...] = ()  # whose events are held here


class Gate(CrossingSeam):
    keeps_causal_order = True
    state: GateEnds

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if self.state.is_closed and type(message) in EVENTS_TO_BROKERS and sender not in self.cycle.path:
            self.state.waiting = tuple(sorted({*self.state.waiting, sender}))
            return Hold()
        return super().arriving(sender, message)


class Gates(Coordinated):
    State = GateEnds
    Seam = Gate
    state: GateEnds
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start),
        (CycleRole.U, NewEnd.CLOSED, Begun, NewEnd.LINKED),
        (CycleRole.V, NewEnd.CLOSED, Begin),
        *((CycleRole.X | CycleRole.Y, OldEnd.IN_USE, cause) for cause in (Begin, Begun)),
        *((CycleRole.HEAD | CycleRole.TAIL, PassingPhase.LOCKED, cause) for cause in (Begin, Begun)),
        beside=Coordinated.TRANSITIONS,
    )

    def _begin(self, _lock_seconds: float) -> Reaction:
        return Reaction(self._close())

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Begin():
                return Reaction(self._close())
            case Begun() if self.name == self.cycle.u:
                return super()._begin(0.0)
            case Begun():
                return Reaction([Send(self.cycle.before(self.name), message)])
        handled = super()._react(sender, message)
        return handled._replace(released=self.state.waiting) if self.is_over else handled

    def _close(self) -> list[Effect]:
        self.state.is_closed = True
        if self.name == self.cycle.v:
            return [Send(self.cycle.before(self.name), Begun(self.cycle.operation))]
        return [Send(self.cycle.after(self.name), Begin(self.cycle.operation))]
