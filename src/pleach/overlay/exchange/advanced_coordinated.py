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

Corrections (docs/protocols/ has for each a run of the printed protocol that fails): what is relayed travels along the
cycle, hop by hop, and so is FIFO with what it orders, begin included; a separator says where it began, so that
neighbours of r and a are not taken for the far side; and no unlock is exchanged: a broker is finished when both
separators have passed it towards a, since nothing black can follow them. Tables follow decision 7: what changes during
the exchange is told over a as one difference at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from pleach.effects import Concluded, Effect, LinkDown, LinkUp, Observe, Observed, Send
from pleach.errors import ProtocolError
from pleach.messages import (
    OPERATOR,
    Begin,
    CycleRefused,
    EndOfRelay,
    ExchangeMessage,
    Layer,
    LockCycle,
    Message,
    Node,
    RelayRouting,
    RelayTables,
    RequestExchange,
    Separator,
    Told,
    pack,
    unpack,
)
from pleach.overlay import sides
from pleach.overlay.exchange.colours import Colouring, Place
from pleach.overlay.exchange.cycle import Cycle
from pleach.overlay.layers import Layers
from pleach.overlay.retries import Retries
from pleach.overlay.seam import Handled
from pleach.routing.entries import Entry
from pleach.routing.rewiring import NewLink, Rewiring, packed, unpacked

RETRY: Final = "advanced-coordinated:retry:"

NOTHING = Handled()


class AdvancedState(msgspec.Struct):
    place: Place | None = None
    told_over_new: list[Told] = []  # at an end of a: what the far side had of this one when r was suspended
    is_settled: bool = True
    attempts: int = 0
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))


class AdvancedCoordinated:
    name = "advanced-coordinated"
    accepts = frozenset(get_args(ExchangeMessage))

    def __init__(self, layers: Layers, *, ordering: str) -> None:
        self._layers = layers
        self._ordering = ordering
        self._state = AdvancedState()
        self._colouring: Colouring | None = None

    @property
    def under_way(self) -> Colouring | None:
        return self._colouring

    @property
    def operation(self) -> str:
        return "" if self._state.place is None else self._state.place.cycle.operation

    def handle(self, sender: Node, message: Message, *, now: float) -> Handled:  # noqa: ARG002
        match message:
            case RequestExchange():
                return self._requested(sender, message, attempts=0)
            case LockCycle():
                return self._lock(sender, message)
        place = self._state.place
        if place is None or message.operation != place.cycle.operation:  # type: ignore[attr-defined]
            raise ProtocolError(self._layers.name, sender, message, "there is no such exchange here")
        match message:
            case CycleRefused():
                return self._refused(place, message)
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
        raise ProtocolError(self._layers.name, sender, message, "it does not fit the state of the exchange")

    def handle_timer(self, name: str, *, now: float) -> Handled:  # noqa: ARG002
        waiting = self._state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestExchange):
            return NOTHING
        return self._requested(OPERATOR, waiting.request, attempts=waiting.attempts)

    def resume(self) -> Sequence[Effect]:
        return self._state.retries.timers()

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, AdvancedState)
        self._colouring = None if self._state.place is None else self._coloured(self._state.place)

    # Lock (Algorithm 2) --------------------------------------------------------------------------------------

    def _requested(self, sender: Node, request: RequestExchange, *, attempts: int) -> Handled:
        router = self._layers.router
        cycle = Cycle(request.operation, request.path, request.cut)
        if reason := cycle.why_not():
            return Handled([Concluded(request.operation, reason)])
        if cycle.u != self._layers.name:
            towards = [cycle.u] if cycle.u in router.neighbours else router.neighbours
            return Handled([Send(neighbour, request) for neighbour in towards if neighbour != sender])
        if router.config.hierarchical:
            reason = "this protocol is not made for hierarchical routing (S1 §4.4.2): use swaplink"
            return Handled([Concluded(request.operation, reason)])
        if request.path[1] not in router.neighbours:
            return Handled([Concluded(request.operation, f"{cycle.u} and {request.path[1]} are not linked")])
        if cycle.v in router.neighbours:
            return Handled([Concluded(request.operation, f"{cycle.u} and {cycle.v} are linked already")])
        if busy := self._layers.locked_for():
            reason = f"{cycle.u} is locked for operation {busy}"
            return Handled(self._state.retries.put_off(request, attempts, reason))
        self._state.attempts = attempts
        lock = LockCycle(request.operation, request.path, request.cut, self._layers.address)
        return Handled([*self._take_part(cycle), LinkUp(cycle.v), Send(request.path[1], lock)])

    def _lock(self, sender: Node, lock: LockCycle) -> Handled:
        cycle = Cycle(lock.operation, lock.path, lock.cut)
        if cycle.u == self._layers.name:  # it came back over a: all are locked
            return self._begin(self._place())
        if busy := self._layers.locked_for():
            reason = f"{self._layers.name} is locked for operation {busy}"
            return Handled([Send(sender, CycleRefused(lock.operation, reason, is_busy=True))])
        if cycle.v == self._layers.name:
            self._layers.addresses[cycle.u] = lock.address
            return Handled([*self._take_part(cycle), LinkUp(cycle.u, lock.address), Send(cycle.u, lock)])
        following = lock.path[lock.path.index(self._layers.name) + 1]
        if following not in self._layers.router.neighbours:
            reason = f"{self._layers.name} and {following} are not linked"
            return Handled([Send(sender, CycleRefused(lock.operation, reason))])
        return Handled([*self._take_part(cycle), Send(following, lock)])

    def _take_part(self, cycle: Cycle) -> list[Effect]:
        self._state.place = Place(cycle, self._layers.name, self._layers.router.config.advertisements)
        self._colouring = self._coloured(self._state.place)
        return [_note(self._state.place, "black")]

    def _coloured(self, place: Place) -> Colouring:
        return Colouring(place, self._ordering)

    def _refused(self, place: Place, message: CycleRefused) -> Handled:
        cycle = place.cycle
        self._end()
        if self._layers.name != cycle.u:
            before = cycle.path[cycle.path.index(self._layers.name) - 1]
            return Handled([Send(before, message)])
        request = RequestExchange(cycle.operation, cycle.path, cycle.cut)
        outcome: list[Effect] = [Concluded(cycle.operation, message.reason)]
        if message.is_busy:
            outcome = self._state.retries.put_off(request, self._state.attempts, message.reason)
        return Handled([LinkDown(cycle.v), *outcome], discarded=[cycle.v])

    # Begin (Algorithm 3) -------------------------------------------------------------------------------------

    def _begin(self, place: Place) -> Handled:
        """Along the cycle to x, and over r to y."""
        cycle, name = place.cycle, self._layers.name
        begin = Begin(cycle.operation)
        if name == cycle.x:
            return Handled([Send(cycle.y, begin), *self._relay_all(place)])
        if name == cycle.y:
            return Handled(self._relay_all(place))
        return Handled([Send(cycle.towards_old(name) or "", begin)])

    def _relay_all(self, place: Place) -> list[Effect]:
        """At an end of r: from now on nothing is told over r, and what still comes is for the end of a."""
        router = self._layers.router
        far = place.cycle.across_old(self._layers.name) or ""
        is_settled = router.is_settled([far])
        router.suspend([far])
        place.is_relaying = True
        received, told = sides.received(router, far), sides.told(router, far)
        tables = RelayTables(place.cycle.operation, packed(received), packed(told), is_settled)
        separator = Separator(place.cycle.operation, self._layers.name, is_relayed=True)
        return [*self._to_new(place, tables), *self._to_new(place, separator)]

    def _to_new(self, place: Place, message: Message) -> list[Effect]:
        """Towards the end of a on this side, hop by hop; at that end it is handled at once."""
        following = place.cycle.towards_new(self._layers.name)
        if following is not None:
            return [Send(following, message)]
        return list(self.handle(self._layers.name, message, now=0.0).effects)

    def _relay_tables(self, place: Place, message: RelayTables) -> Handled:
        cycle, name = place.cycle, self._layers.name
        far = cycle.across_new(name)
        if far is None:
            return Handled(self._to_new(place, message))
        self._state.told_over_new, self._state.is_settled = message.told, message.is_settled
        link = NewLink(unpacked(message.received), unpacked(message.told), is_suspended=True)
        return Handled(self._rewire(Rewiring(links={far: link}, parent=self._layers.router.parent)))

    def _relay_routing(self, place: Place, message: RelayRouting) -> Handled:
        far = place.cycle.across_new(self._layers.name)
        if far is None:
            return Handled(self._to_new(place, message))
        outcome = self._layers.router.handle(far, message.message)
        return Handled([*outcome.sends, *self._layers.sessions.settle(outcome.due)])

    # Separator (Algorithm 4) and end (Algorithm 5) -----------------------------------------------------------

    def _separator(self, place: Place, sender: Node, message: Separator) -> Handled:
        cycle, name = place.cycle, self._layers.name
        if message.origin not in cycle.side(name):
            return self._of_the_other_side(place, message)
        if message.is_relayed and cycle.across_new(name) is None:
            return Handled(self._to_new(place, message))
        if message.is_relayed or sender == cycle.towards_new(name):
            return self._turn_gray(place, message)
        return self._passed_back(place, message)

    def _turn_gray(self, place: Place, message: Separator) -> Handled:
        """This broker and all between it and a know the way over a."""
        cycle, name = place.cycle, self._layers.name
        place.is_gray = True
        separator = Separator(cycle.operation, message.origin)
        asked = self._ask_the_other_way(place)
        following = cycle.towards_old(name)
        if following is not None:
            return Handled([_note(place, "gray"), *asked, Send(following, separator)])
        far = cycle.across_old(name) or ""
        stopped = self._stop_using(far)
        passed = self._passed_back(place, separator)
        effects = [_note(place, "gray"), *asked, *stopped, Send(far, separator), *passed.effects]
        return Handled(effects, passed.released)

    def _ask_the_other_way(self, place: Place) -> list[Send]:
        """What waits for answers that would come over r is to be confirmed by the brokers there, over a."""
        cycle, name = place.cycle, self._layers.name
        awaited = cycle.towards_old(name) or cycle.across_old(name) or ""
        return self._layers.router.ask_also(awaited, cycle.way_around(name))

    def _passed_back(self, place: Place, message: Separator) -> Handled:
        """The separator is on its way back from r: nothing black of this side follows it."""
        place.own_passed = True
        return self._go_on(place, message)

    def _of_the_other_side(self, place: Place, message: Separator) -> Handled:
        """It came over r, or along this side: nothing black of the other side follows it."""
        cycle, name = place.cycle, self._layers.name
        place.other_passed = True
        effects: list[Effect] = []
        if cycle.across_old(name) is not None:
            place.is_relaying = False
            effects = self._to_new(place, EndOfRelay(cycle.operation))
        going_on = self._go_on(place, message)
        return Handled([*effects, *going_on.effects], going_on.released)

    def _go_on(self, place: Place, message: Separator) -> Handled:
        """Pass a separator on towards a. After both of them this broker has no more to do with the exchange."""
        cycle, name = place.cycle, self._layers.name
        following = cycle.towards_new(name)
        effects: list[Effect] = []
        if place.is_over:
            effects += self._leave_old(place)
        if following is not None:
            effects.append(Send(following, message))
        if place.is_over:
            effects += [*self._open_new(place), *self._finish(place)]
        return Handled(effects, place.releasable(self._ordering))

    def _end_of_relay(self, place: Place, message: EndOfRelay) -> Handled:
        if place.cycle.across_new(self._layers.name) is None:
            return Handled(self._to_new(place, message))
        place.is_ended = True
        return NOTHING

    # Tables at the ends of both links --------------------------------------------------------------------------

    def _stop_using(self, far: Node) -> list[Effect]:
        """At an end of r, when its side is gray: forget the subscriptions that led black events of this side over r.

        Advertisements stay until the other side is gray too: they call for the subscriptions that lead its black events
        on, on this side.
        """
        router = self._layers.router
        received = {**sides.received(router, far), Layer.SUBSCRIPTIONS: frozenset[Entry]()}
        link = NewLink(received, sides.told(router, far), is_same=True, is_suspended=True)
        return self._rewire(Rewiring(links={far: link}, parent=router.parent))

    def _leave_old(self, place: Place) -> list[Effect]:
        """At an end of r: nobody uses it any more. What waited for answers over it has asked the other way round."""
        far = place.cycle.across_old(self._layers.name)
        if far is None:
            return []
        return self._rewire(Rewiring(gone=(far,), parent=self._layers.router.parent))

    def _open_new(self, place: Place) -> list[Effect]:
        """At an end of a: the tables on this side are those of the new tree; tell the far side what is new to it."""
        router, cycle = self._layers.router, place.cycle
        far = cycle.across_new(self._layers.name)
        if far is None:
            return []
        told, beyond = unpacked(self._state.told_over_new), cycle.side(far)[1:]
        link = NewLink(sides.received(router, far), told, beyond=beyond, is_same=True)
        return self._rewire(Rewiring(links={far: link}, parent=router.parent, settle=not self._state.is_settled))

    # The end -------------------------------------------------------------------------------------------------

    def _finish(self, place: Place) -> list[Effect]:
        self._end()
        cycle, name = place.cycle, self._layers.name
        effects: list[Effect] = [_note(place, "done")]
        if (far := cycle.across_old(name)) is not None:
            effects.append(LinkDown(far))
        if name == cycle.u:
            effects.append(Concluded(cycle.operation))
        return effects

    def _end(self) -> None:
        self._state.place = None
        self._state.told_over_new = []
        self._colouring = None

    def _rewire(self, rewiring: Rewiring) -> list[Effect]:
        outcome = self._layers.router.rewire(rewiring)
        return [*outcome.sends, *self._layers.sessions.settle(outcome.due)]

    def _place(self) -> Place:
        assert self._state.place is not None
        return self._state.place


def _note(place: Place, what: str) -> Observe:
    return Observe(Observed.STATE, detail=f"exchange {place.cycle.operation}: {what}")
