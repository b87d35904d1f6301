"""Gates: every broker of the cycle keeps new events out until the old link has gone (docs/tutorials/own-protocol.md).

u          …          x ──r── y          …          v
│──── begin ─ … ─────▶│──────▶│──── … ─ begin ─────▶│        each closes its gate: what is not on the cycle waits
│◀─── … ── begun ─────│◀──────│◀──── begun ─ … ─────│        … and what was on it has left it
│ ─────────── activate, flush …: as `coordinated` ──────────    no event is there to be lost, doubled, overtaken
"""

from __future__ import annotations

from pleach.core.effects import Effect, Send
from pleach.core.messages import EVENTS_TO_BROKERS, Begin, Begun, Message, Node
from pleach.core.overlay.exchange.coordinated import Coordinated
from pleach.core.overlay.exchange.crossing import CrossingSeam, Ends
from pleach.core.overlay.seam import Hold, Passing, Reaction, Verdict


class GateEnds(Ends):
    is_closed: bool = False
    waiting: tuple[Node, ...] = ()  # whose events are held here


class Gate(CrossingSeam):
    keeps_causal_order = True
    ends: GateEnds
    inside: frozenset[Node]

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if self.ends.is_closed and type(message) in EVENTS_TO_BROKERS and sender not in self.inside:
            self.ends.waiting = tuple(sorted({*self.ends.waiting, sender}))
            return Hold()
        return super().arriving(sender, message)


class Gates(Coordinated):
    ends: GateEnds

    def _fresh(self) -> GateEnds:
        return GateEnds()

    def _at_seam(self) -> Gate:
        gate = Gate(self.cycle, self.name, self.ends)
        gate.ends, gate.inside = self.ends, frozenset(self.cycle.path)
        return gate

    def begin(self, _lock_seconds: float, /) -> Reaction:
        return Reaction(self._close())

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Begin():
                return Reaction(self._close())
            case Begun() if self.name == self.cycle.u:
                return super().begin(0.0)
            case Begun():
                return Reaction([Send(self._beside(-1), message)])
        handled = super().handle(sender, message)
        return handled._replace(released=self.ends.waiting) if self.is_over else handled

    def _close(self) -> list[Effect]:
        self.ends.is_closed = True
        if self.name == self.cycle.v:
            return [Send(self._beside(-1), Begun(self.cycle.operation))]
        return [Send(self._beside(+1), Begin(self.cycle.operation))]

    def _beside(self, step: int) -> Node:
        return self.cycle.path[self.cycle.path.index(self.name) + step]
