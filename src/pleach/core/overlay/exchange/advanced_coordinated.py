"""Advanced coordinated reconfiguration (S1 §4.4.2; docs/protocols/advanced-coordinated.md), corrected.

All brokers of the cycle are black at first. Each end of r sends what it has of the other side to the end of a on its
own side, which takes it as if it had come over a. A separator then turns the brokers gray, from a to r: each of them
now knows the way over a. An event takes the colour of the broker where it comes onto the cycle; black ones go over r,
gray ones over a, where they wait until black ones that went before have left (fifo), or all black ones have (causal).

    u          …          x ──r── y          …          v
    │◀─── tables, sep ────│       │──── tables, sep ───▶│          begin; nothing more is told over r
    │ gray ── separator ─▶│       │◀─ separator ── gray │
    │◀──── separator ─────│──────▶│─ end ─ separator ──▶│          what is queued at a goes on
    │◀─ end ─ separator ──│◀──────│───── separator ────▶│          r is gone; what is new is told over a

Corrections of what S1 prints (docs/protocols/advanced-coordinated.md says where that fails): what is relayed travels
along the cycle, hop by hop, and so is FIFO with what it orders, begin included; a separator says where it began, so
that neighbours of r and a are not taken for the far side; and no unlock is exchanged: a broker is finished when both
separators have passed it towards a, since nothing black can follow them. Tables follow decision 7: what changes during
the exchange is told over a as one difference at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import Effect, LinkDown, Send
from pleach.core.messages import (
    Begin,
    EndOfRelay,
    Layer,
    Message,
    Node,
    RelayRouting,
    RelayTables,
    Separator,
    TableEntries,
    pack,
    unpack,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.colours import ColourSeam, CyclePlace
from pleach.core.overlay.exchange.contract import NOTHING, note
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.entries import Entry
from pleach.core.routing.rewiring import NewLink, Rewiring, packed, unpacked
from pleach.errors import ProtocolError


class AdvancedState(msgspec.Struct):
    place: CyclePlace
    told_over_new: list[TableEntries] = []  # at an end of a: what the far side had of this one when r was suspended
    is_settled: bool = True


class AdvancedCoordinated:
    """One broker's part (see `contract.Part`)."""

    def __init__(self, context: BrokerContext, cycle: Cycle, ordering: str) -> None:
        self._context = context
        self._ordering = ordering
        self.cycle = cycle
        self._state = self._fresh(CyclePlace(cycle, context.name, context.router.config.advertisements))
        self.seam = self._at_seam()

    def _fresh(self, place: CyclePlace) -> AdvancedState:
        return AdvancedState(place)

    def _at_seam(self) -> Reconfiguration:
        return ColourSeam(self._state.place, self._ordering)

    @property
    def is_over(self) -> bool:
        return self._state.place.is_clear

    @property
    def old_link(self) -> OldLink:
        """Its separator is the last of an end of r over it."""
        place = self._state.place
        if not place.own_passed:
            return OldLink.THERE
        return OldLink.GONE if place.other_passed else OldLink.LEFT

    def begin(self, _lock_seconds: float, /) -> Reaction:
        return self._begin(self._state.place)

    def handle(self, sender: Node, message: Message) -> Reaction:
        place = self._state.place
        match message:
            case Begin():
                return self._begin(place)
            case RelayTables():
                return self._relay_tables(place, message)
            case RelayRouting():
                return self._relay_routing(place, message)
            case Separator():
                return self._separator(place, sender, message)
            case EndOfRelay():
                return self._end_of_relay(place, message)
        raise ProtocolError(self._context.name, sender, message, "it does not fit the state of the exchange")

    def due(self) -> Reaction:
        return NOTHING  # it sets no timer

    def resume(self) -> Sequence[Effect]:
        return ()

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, type(self._state))
        self.seam = self._at_seam()

    # Begin (Algorithm 3) -------------------------------------------------------------------------------------

    def _begin(self, place: CyclePlace) -> Reaction:
        """Along the cycle to x, and over r to y."""
        cycle, name = place.cycle, self._context.name
        begin = Begin(cycle.operation)
        if name == cycle.x:
            return Reaction([Send(cycle.y, begin), *self._relay_all(place)])
        if name == cycle.y:
            return Reaction(self._relay_all(place))
        return Reaction([Send(cycle.towards_old(name) or "", begin)])

    def _relay_all(self, place: CyclePlace) -> list[Effect]:
        """At an end of r: from now on nothing is told over r, and what still comes is for the end of a."""
        router = self._context.router
        far = place.cycle.across_old(self._context.name) or ""
        is_settled = router.is_settled([far])
        router.suspend([far])
        place.is_relaying = True
        received, told = sides.received(router, far), sides.told(router, far)
        tables = RelayTables(place.cycle.operation, packed(received), packed(told), is_settled)
        separator = Separator(place.cycle.operation, self._context.name, is_relayed=True)
        return [*self._to_new(place, tables), *self._to_new(place, separator)]

    def _to_new(self, place: CyclePlace, message: Message) -> list[Effect]:
        """Towards the end of a on this side, hop by hop; at that end it is handled at once."""
        following = place.cycle.towards_new(self._context.name)
        if following is not None:
            return [Send(following, message)]
        return list(self.handle(self._context.name, message).effects)

    def _relay_tables(self, place: CyclePlace, message: RelayTables) -> Reaction:
        cycle, name = place.cycle, self._context.name
        far = cycle.across_new(name)
        if far is None:
            return Reaction(self._to_new(place, message))
        self._state.told_over_new, self._state.is_settled = message.told, message.is_settled
        link = NewLink(unpacked(message.received), unpacked(message.told), is_suspended=True)
        return Reaction(self._context.rewire(Rewiring(links={far: link}, parent=self._context.router.parent)))

    def _relay_routing(self, place: CyclePlace, message: RelayRouting) -> Reaction:
        far = place.cycle.across_new(self._context.name)
        if far is None:
            return Reaction(self._to_new(place, message))
        return Reaction(self._context.answered(self._context.router.handle(far, message.message)))

    # Separator (Algorithm 4) and end (Algorithm 5) -----------------------------------------------------------

    def _separator(self, place: CyclePlace, sender: Node, message: Separator) -> Reaction:
        cycle, name = place.cycle, self._context.name
        if message.origin not in cycle.side(name):
            return self._of_the_other_side(place, message)
        if message.is_relayed and cycle.across_new(name) is None:
            return Reaction(self._to_new(place, message))
        if message.is_relayed or sender == cycle.towards_new(name):
            return self._turn_gray(place, message)
        return self._passed_back(place, message)

    def _turn_gray(self, place: CyclePlace, message: Separator) -> Reaction:
        """This broker and all between it and a know the way over a."""
        cycle, name = place.cycle, self._context.name
        place.is_gray = True
        self._doubt_what_was_told(place)
        separator = Separator(cycle.operation, message.origin)
        asked = self._ask_the_other_way(place)
        following = cycle.towards_old(name)
        if following is not None:
            return Reaction([note(place.cycle, "gray"), *asked, Send(following, separator)])
        far = cycle.across_old(name) or ""
        stopped = self._stop_using(far)
        passed = self._passed_back(place, separator)
        effects = [note(place.cycle, "gray"), *asked, *stopped, Send(far, separator), *passed.effects]
        return Reaction(effects, passed.released)

    def _ask_the_other_way(self, place: CyclePlace) -> list[Send]:
        """What waits for answers that would come over r is to be confirmed by the brokers there, over a."""
        cycle, name = place.cycle, self._context.name
        awaited = cycle.towards_old(name) or cycle.across_old(name) or ""
        return self._context.router.ask_also(awaited, cycle.way_around(name))

    def _doubt_what_was_told(self, place: CyclePlace) -> None:
        """Towards a it was told what came over r: with the same from this side nothing is told, and v is not told yet.

        At a, link a itself is suspended, so that requests wait for it anyway.
        """
        if place.cycle.towards_new(self._context.name) is not None:
            self._context.router.doubt(place.cycle.way_around(self._context.name))

    def _passed_back(self, place: CyclePlace, message: Separator) -> Reaction:
        """The separator is on its way back from r: nothing black of this side follows it."""
        place.own_passed = True
        return self._go_on(place, message)

    def _of_the_other_side(self, place: CyclePlace, message: Separator) -> Reaction:
        """It came over r, or along this side: nothing black of the other side follows it."""
        cycle, name = place.cycle, self._context.name
        place.other_passed = True
        ended = [] if cycle.across_old(name) is None else self._end_relaying(place)
        going_on = self._go_on(place, message)
        return Reaction([*ended, *going_on.effects], going_on.released)

    def _end_relaying(self, place: CyclePlace) -> list[Effect]:
        place.is_relaying = False
        return self._to_new(place, EndOfRelay(place.cycle.operation))

    def _go_on(self, place: CyclePlace, message: Separator) -> Reaction:
        """Pass a separator on towards a. After both of them this broker has no more to do with the exchange."""
        following = place.cycle.towards_new(self._context.name)
        effects: list[Effect] = [] if following is None else [Send(following, message)]
        if place.is_clear:
            effects = [*self._leave_old(place), *effects, *self._finish(place)]
        return Reaction(effects, place.releasable(self._ordering))

    def _end_of_relay(self, place: CyclePlace, message: EndOfRelay) -> Reaction:
        if place.cycle.across_new(self._context.name) is None:
            return Reaction(self._to_new(place, message))
        place.is_ended = True
        return NOTHING

    # Tables at the ends of both links --------------------------------------------------------------------------

    def _stop_using(self, far: Node) -> list[Effect]:
        """At an end of r, when its side is gray: forget the subscriptions that led black events of this side over r.

        Advertisements stay until the other side is gray too: they call for the subscriptions that lead its black events
        on, on this side.
        """
        router = self._context.router
        received = {**sides.received(router, far), Layer.SUBSCRIPTIONS: frozenset[Entry]()}
        link = NewLink(received, sides.told(router, far), is_same=True, is_suspended=True)
        return self._context.rewire(Rewiring(links={far: link}, parent=router.parent))

    def _leave_old(self, place: CyclePlace) -> list[Effect]:
        """At an end of r: nobody uses it any more. What waited for answers over it has asked the other way round."""
        far = place.cycle.across_old(self._context.name)
        if far is None:
            return []
        return self._context.rewire(Rewiring(gone=(far,), parent=self._context.router.parent))

    def _open_new(self, place: CyclePlace) -> list[Effect]:
        """At an end of a: the tables on this side are those of the new tree; tell the far side what is new to it."""
        router, cycle = self._context.router, place.cycle
        far = cycle.across_new(self._context.name)
        if far is None:
            return []
        told, beyond = unpacked(self._state.told_over_new), cycle.side(far)[1:]
        link = NewLink(sides.received(router, far), told, beyond=beyond, is_same=True)
        return self._context.rewire(
            Rewiring(links={far: link}, parent=router.parent, settle=not self._state.is_settled)
        )

    # The end -------------------------------------------------------------------------------------------------

    def _finish(self, place: CyclePlace) -> list[Effect]:
        """Both separators have passed: nothing of the exchange follows them."""
        self._context.router.trust(place.cycle.towards_new(self._context.name) or "")
        return [*self._open_new(place), *self._close_old(place)]

    def _close_old(self, place: CyclePlace) -> list[Effect]:
        far = place.cycle.across_old(self._context.name)
        return [] if far is None else [LinkDown(far)]
