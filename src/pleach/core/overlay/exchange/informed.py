"""Informed link activation (S1 §4.4.1; docs/protocols/informed.md): only what led over r is (un)subscribed.

    u          …          x ──r── y          …          v
    │──── begin ────▶ …  ▶│ ─ begin ▶│                  │        nothing more is told over r
    │                     │◀─ begun ─│                  │
    │◀──── tables ─ … ────│       │──── … ─ tables ────▶│        what each end of r has of the other, and that of it:
    │ linked              │       │             linked  │        the ends of a take it as told over a
                      removes   removes                          after a delay, as in deferred unsubscriptions
    │◀─────── done ───────│       │─────── done ───────▶│        now a tells what is new since

Both ends of r relay the same two sets, so that both ends of a agree on them, and nothing of it is sent over a. Until
its side of r is removed an end of a tells nothing over a: its table has the far side's subscriptions twice.
"""

from __future__ import annotations

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import Begin, Begun, Message, Node, RelayTables, TableEntries
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.crossing import Ends
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.deferred import DELAY_SECONDS
from pleach.core.overlay.exchange.part import LinkExchange
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NewLink, Rewiring, packed, unpacked


class InformedEnds(Ends):
    told_over_new: list[TableEntries] = msgspec.field(
        default_factory=list
    )  # at an end of a: what the far end has of it
    is_settled: bool = True


class Informed(LinkExchange):
    ends: InformedEnds

    def __init__(self, context: BrokerContext, cycle: Cycle, ordering: str, *, delay: float = DELAY_SECONDS) -> None:
        super().__init__(context, cycle, ordering)
        self._delay = delay

    def _fresh(self) -> Ends:
        return InformedEnds()

    def begin(self, _lock_seconds: float, /) -> Reaction:
        return self._begin()

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Begin():
                return self._begin()
            case Begun():
                return self._relay()
            case RelayTables():
                return self._relayed(message)
        return super().handle(sender, message)

    # Tables --------------------------------------------------------------------------------------------------

    def _begin(self) -> Reaction:
        cycle, router = self.cycle, self._context.router
        if self.name == cycle.x:
            router.suspend([cycle.y])
            return Reaction([Send(cycle.y, Begin(cycle.operation))])
        if self.name != cycle.y:
            return Reaction(self._pass_begin())
        router.suspend([cycle.x])
        relayed = self._relay()
        return Reaction([Send(cycle.x, Begun(cycle.operation)), *relayed.effects], relayed.released)

    def _relay(self) -> Reaction:
        """At an end of r: nothing more is told over it, either way, so that both ends relay the same."""
        router, far = self._context.router, self._over_old
        received, told = packed(sides.received(router, far)), packed(sides.told(router, far))
        tables = RelayTables(self.cycle.operation, received, told, router.is_settled([far]))
        relayed = self._relayed(tables)
        return Reaction([*self._remove_after(self._delay), *relayed.effects], relayed.released)

    def _relayed(self, tables: RelayTables) -> Reaction:
        """Towards the end of a on this side, which takes them as told over a."""
        following = self.cycle.towards_new(self.name)
        if following is not None:
            return Reaction([Send(following, tables)])
        ends, router = self.ends, self._context.router
        ends.told_over_new, ends.is_settled, ends.is_linked = tables.told, tables.is_settled, True
        link = NewLink(unpacked(tables.received), unpacked(tables.told), is_suspended=True)
        linked = self._context.rewire(Rewiring(links={self._over_new: link}, parent=router.parent))
        return Reaction(linked, released=[self._over_new])

    def _open(self) -> list[Effect]:
        return self._tell_what_is_new(self.ends.told_over_new, is_settled=self.ends.is_settled)
