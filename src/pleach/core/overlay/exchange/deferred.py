"""Deferred unsubscriptions (S1 §4.4.1; docs/protocols/deferred.md): subscribe over a, and after a delay unsubscribe.

    u          …          x ──r── y          …          v
    │ ─────────────────── activate ──────────────────▶ │         u, then v: tells the far end all that it knows
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        x, then y: after the delay, forgets what came over r

A long delay means fewer events lost, more delivered twice; a short one the reverse. Ideal is the time in which the
subscriptions over a arrive where those over r are withdrawn; no broker knows it.
"""

from __future__ import annotations

from pleach.core.messages import Activate, Begin, Done
from pleach.core.overlay.exchange.contract import Start, table
from pleach.core.overlay.exchange.crossing import NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import OF_OLD, CycleRole
from pleach.core.overlay.exchange.part import DONE_AT_NEW, REMOVAL_AFTER_DELAY, LinkExchange
from pleach.core.overlay.seam import Reaction


class Deferred(LinkExchange):
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start, NewEnd.LINKED),
        (CycleRole.X, OldEnd.IN_USE, Start, OldEnd.TIMED),  # u = x
        (CycleRole.HEAD, PassingPhase.LOCKED, Begin, PassingPhase.BEGUN),
        (OF_OLD, OldEnd.IN_USE, Begin, OldEnd.TIMED),
        (CycleRole.V, NewEnd.CLOSED, Activate, NewEnd.LINKED, NewEnd.OPEN),
        (CycleRole.HEAD, PassingPhase.BEGUN, Done),
        (CycleRole.TAIL, PassingPhase.LOCKED, Done),
        (CycleRole.V, NewEnd.CLOSED, Done),
        beside={**REMOVAL_AFTER_DELAY, **DONE_AT_NEW},
    )

    def _begin(self, _lock_seconds: float) -> Reaction:
        return Reaction([*self._activate(), *self._begun().effects])

    def _begun(self) -> Reaction:
        return Reaction([*self._pass_begin(), *(self._remove_later() if self._over_old else [])])
