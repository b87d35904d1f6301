"""Informed link activation (S1 §4.4.1; docs/protocols/informed.md): only what led over r is (un)subscribed.

    u          …          x ──r── y          …          v
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        nothing more is told over r
    │                     │◀─ begun ─│                  │
    │◀──── tables ─ … ────│       │──── … ─ tables ────▶│        what each end of r has of the other, and that of it:
    │ linked              │       │             linked  │        the ends of a take it as told over a
                      removes   removes                          after a delay, as in deferred unsubscriptions
    │◀─────── done ───────│       │─────── done ───────▶│        now a tells what is new since

Both ends of r relay the same two sets, so that both ends of a agree on them, and nothing of it is sent over a. Until r
is gone on its side, an end of a tells nothing over a: its table has the far side's subscriptions twice.
"""

from __future__ import annotations

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import Begin, Begun, Done, Message, Node, RelayTables, TableEntries
from pleach.core.overlay.exchange.contract import Start, table
from pleach.core.overlay.exchange.crossing import Ends, NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import OF_NEW, OF_NONE, CycleRole
from pleach.core.overlay.exchange.part import DONE_AT_NEW, REMOVAL_AFTER_DELAY, LinkExchange
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NewLink, Rewiring, packed, unpacked


class InformedEnds(Ends):
    told_over_new: list[TableEntries] = msgspec.field(default_factory=list)  # at an end of a: what the far end has
    is_settled: bool = True  # no confirmation was outstanding on r when its tables were relayed


class Informed(LinkExchange):
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start),
        (CycleRole.X, OldEnd.IN_USE, Start, OldEnd.SUSPENDED),  # u = x
        (CycleRole.HEAD, PassingPhase.LOCKED, Begin, PassingPhase.BEGUN),
        (CycleRole.X, OldEnd.IN_USE, Begin, OldEnd.SUSPENDED),
        (CycleRole.Y, OldEnd.IN_USE, Begin, OldEnd.TIMED),
        (CycleRole.X, OldEnd.SUSPENDED, Begun, OldEnd.TIMED),
        (CycleRole.HEAD, PassingPhase.BEGUN, RelayTables),
        (CycleRole.TAIL, PassingPhase.LOCKED, RelayTables, PassingPhase.BEGUN),
        (OF_NEW, NewEnd.CLOSED, RelayTables, NewEnd.LINKED),
        (OF_NONE, PassingPhase.BEGUN, Done),
        (CycleRole.U, NewEnd.CLOSED, Done),  # of y, by way of v, ahead of the tables
        beside={**REMOVAL_AFTER_DELAY, **DONE_AT_NEW},
    )
    State = InformedEnds
    state: InformedEnds

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Begun():
                return self._relay()
            case RelayTables():
                return self._relayed(message)
        return super()._react(sender, message)

    # Tables --------------------------------------------------------------------------------------------------

    def _begun(self) -> Reaction:
        if not self._over_old:
            return Reaction(self._pass_begin())
        self._context.router.suspend([self._over_old])
        if self.name == self.cycle.x:
            self.state.old = OldEnd.SUSPENDED
            return Reaction(self._pass_begin())
        relayed = self._relay()
        return Reaction([Send(self.cycle.x, Begun(self.cycle.operation)), *relayed.effects], relayed.released)

    def _relay(self) -> Reaction:
        """At an end of r: nothing more is told over it, either way, so that both ends relay the same."""
        router, far = self._context.router, self._over_old
        received, told = packed(sides.received(router, far)), packed(sides.told(router, far))
        tables = RelayTables(self.cycle.operation, received, told, router.is_settled([far]))
        timer = self._remove_later()
        relayed = self._relayed(tables)
        return Reaction([*timer, *relayed.effects], relayed.released)

    def _relayed(self, tables: RelayTables) -> Reaction:
        """Towards the end of a on this side, which takes them as told over a."""
        following = self.cycle.towards_new(self.name)
        if following is not None:
            self.state.between = PassingPhase.BEGUN
            return Reaction([Send(following, tables)])
        state, router = self.state, self._context.router
        state.told_over_new, state.is_settled, state.new = tables.told, tables.is_settled, NewEnd.LINKED
        link = NewLink(unpacked(tables.received), unpacked(tables.told), is_suspended=True)
        linked = self._context.rewire(Rewiring(links={self._over_new: link}, parent=router.parent))
        return Reaction(linked, released=[self._over_new])

    def _open(self) -> list[Effect]:
        return self._tell_what_is_new(self.state.told_over_new, is_settled=self.state.is_settled)
