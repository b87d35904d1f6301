"""The strawman approach (S1 §4.4.1, S2 §4.1; docs/protocols/strawman.md): subscribe over a, unsubscribe over r.

    u          …          x ──r── y          …          v
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        x, then y: forgets all that came over r
    │ ─────────────────── activate ──────────────────▶ │         u, then v: tells the far end all that it knows

The ends of a and those of r act independently, and at the same time: no end waits for subscriptions to arrive before
those that they replace are withdrawn, nor the reverse. Brokers have no common clock. If u subscribed at once, `begin`
would run along the cycle just ahead of the subscriptions, which would be coordination. So u waits about as long as
`begin` takes to r: a share of the time that the lock took for the whole cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.effects import Effect, SetTimer
from pleach.core.messages import Activate, Begin, Done, Removed
from pleach.core.overlay.exchange.contract import PART, Start, TimerDue, table
from pleach.core.overlay.exchange.crossing import NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import OF_OLD, CycleRole
from pleach.core.overlay.exchange.part import DONE_AT_NEW, LinkExchange
from pleach.core.overlay.seam import Reaction


class Strawman(LinkExchange):
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start, NewEnd.TIMED),
        (CycleRole.X, OldEnd.IN_USE, Start, OldEnd.REMOVED),  # u = x
        (CycleRole.HEAD, PassingPhase.LOCKED, Begin, PassingPhase.BEGUN),
        (OF_OLD, OldEnd.IN_USE, Begin, OldEnd.REMOVED),
        (OF_OLD, OldEnd.REMOVED, Removed, OldEnd.GONE),
        (CycleRole.U, NewEnd.TIMED, TimerDue, NewEnd.LINKED, NewEnd.OPEN),
        (CycleRole.V, NewEnd.CLOSED, Activate, NewEnd.LINKED, NewEnd.OPEN),
        (CycleRole.HEAD, PassingPhase.BEGUN, Done),
        (CycleRole.TAIL, PassingPhase.LOCKED, Done),
        (CycleRole.U, NewEnd.TIMED, Done),
        (CycleRole.V, NewEnd.CLOSED, Done),
        beside=DONE_AT_NEW,
    )

    def _begin(self, lock_seconds: float) -> Reaction:
        to_the_middle_of_r = (self.cycle.cut + 0.5) / len(self.cycle.path)
        self.state.new, self.state.link_after = NewEnd.TIMED, lock_seconds * to_the_middle_of_r
        return Reaction([*self.resume(), *self._begun().effects])

    def _due(self) -> Reaction:
        return Reaction(self._activate())

    def resume(self) -> Sequence[Effect]:
        return [SetTimer(PART, self.state.link_after)] if self.state.new is NewEnd.TIMED else []

    def _begun(self) -> Reaction:
        return Reaction([*self._pass_begin(), *(self._remove() if self._over_old else [])])
