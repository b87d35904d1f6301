"""Advanced coordinated reconfiguration as S1 prints it (§4.4.2), with its errors: to compare with, not to use.

What differs from advanced_coordinated.py, and where S1 has it:

          u sends `begin` to both ends of r itself: here to y by way of a.        Algorithm 2, line 31
          What goes to Brelay goes out of band: it may come later than what       Algorithms 3, 4, 7: sendMsg(Brelay, …)
          is sent on the links after it.
    BEGIN    The other side's separator unsets Brelay. If `begin` comes           Algorithm 4, line 23
             behind it, nothing is relayed, and this side never turns gray.
    SENDER   Where Br and Ba are neighbours, Ba takes the other side's            Algorithm 4, line 6: Bsender = Brelay
             separator for its own: it turns gray before it knows the way.
    UNLOCK   Brokers are unlocked by messages that unset pointers. Who hears      Algorithm 4, lines 32 to 39;
             from a first does not acknowledge what comes from r; and brokers     Algorithm 5, lines 8 to 12;
             turn black before the end of a takes anything black over a.          Algorithm 6

Each error can be left out, which is then mended in S1's own terms. Read in S1's favour: what is sent to an unset
pointer goes to nobody; a broker at both links has both roles (Algorithm 2, lines 9 to 12, gives it the one at a); what
travels out of band stays in order. It travels along the cycle here, and waits at Ba.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from pleach.core.effects import Effect, Send, SetTimer
from pleach.core.messages import Begin, EndOfRelay, Message, Node, RelayRouting, RelayTables, Separator, Unlock
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.advanced_coordinated import AdvancedCoordinated, AdvancedState
from pleach.core.overlay.exchange.colours import ColourSeam, CyclePlace
from pleach.core.overlay.exchange.contract import PART
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.seam import Passing, Reaction, Reconfiguration, Verdict, stale

OUT_OF_BAND_SECONDS = 0.01  # later than along the cycle
UNSET: Node = ""


class Misprint(Enum):
    BEGIN = auto()
    SENDER = auto()
    UNLOCK = auto()


class Pointers(msgspec.Struct):
    """S1 Table 4.1, by its names."""

    left: Node = UNSET
    right: Node = UNSET
    old: Node = UNSET
    new: Node = UNSET
    relay: Node = UNSET

    @classmethod
    def of(cls, cycle: Cycle, name: Node) -> Pointers:
        """Algorithm 2, lines 4 to 12."""
        at, path = cycle.path.index(name), cycle.path
        old, new = cycle.across_old(name) or UNSET, cycle.across_new(name) or UNSET
        relay = cycle.end_at_old(name) if new else cycle.end_at_new(name) if old else UNSET
        return cls(path[at - 1], path[(at + 1) % len(path)], old, new, relay)


class PrintedState(AdvancedState):
    at: Pointers = msgspec.field(default_factory=Pointers)
    out_of_band: list[RelayTables | RelayRouting | Separator | EndOfRelay] = msgspec.field(default_factory=list)
    is_colourless: bool = False  # all that colours decide here is unset
    is_unlocked: bool = False


class MendedColouring(ColourSeam):
    """Where both separators have passed nothing is black, whether the broker that sent it has finished or not."""

    def _is_gray(self, source: Node, cause: Passing) -> bool:
        return self._place.is_clear or super()._is_gray(source, cause)


class Colourless:
    """Algorithms 7 and 8 where Bnew and Bold are unset: nothing is queued, dropped or coloured."""

    keeps_causal_order = True

    def __init__(self, peers: frozenset[Node]) -> None:
        self.peers = peers

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        return stale(sender, message)

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        return sends


class AdvancedCoordinatedPrinted(AdvancedCoordinated):
    _state: PrintedState

    def __init__(
        self, context: BrokerContext, cycle: Cycle, ordering: str, *, errors: frozenset[Misprint] = frozenset(Misprint)
    ) -> None:
        self._errors = errors
        super().__init__(context, cycle, ordering)

    def _fresh(self, place: CyclePlace) -> AdvancedState:
        return PrintedState(place, at=Pointers.of(place.cycle, place.name))

    def _at_seam(self) -> Reconfiguration:
        if Misprint.UNLOCK not in self._errors:
            return MendedColouring(self._state.place, self._ordering)
        colouring = super()._at_seam()
        return Colourless(colouring.peers) if self._state.is_colourless else colouring

    @property
    def is_over(self) -> bool:
        return self._state.is_unlocked

    # Out of band -------------------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Unlock():
                return Reaction(self._unlock(sender))
            case RelayTables() | RelayRouting() | EndOfRelay() | Separator(is_relayed=True) if self._state.at.new:
                return self._out_of_band(sender, message)
        return super().handle(sender, message)

    def _out_of_band(self, sender: Node, message: RelayTables | RelayRouting | EndOfRelay | Separator) -> Reaction:
        """At Ba: it is here, but might as well be late. What Ba sends itself is not (Algorithm 8, line 8)."""
        if sender == self._context.name:
            return super().handle(sender, message)
        self._state.out_of_band.append(message)
        return Reaction(self.resume())

    def resume(self) -> list[Effect]:
        return [SetTimer(PART, OUT_OF_BAND_SECONDS)] if self._state.out_of_band else []

    def due(self) -> Reaction:
        waiting, self._state.out_of_band = self._state.out_of_band, []
        handled = [super(AdvancedCoordinatedPrinted, self).handle(self._state.at.relay, message) for message in waiting]
        effects = [effect for each in handled for effect in each.effects]
        return Reaction(effects, list(dict.fromkeys(link for each in handled for link in each.released)))

    # Begin (Algorithm 3) -----------------------------------------------------------------------------------------

    def _begin(self, place: CyclePlace) -> Reaction:
        """Algorithm 2, line 31: from u both ways."""
        cycle, name = place.cycle, self._context.name
        begin = Begin(cycle.operation)
        over_new = [Send(cycle.v, begin)] if name == cycle.u else []
        following = cycle.towards_old(name)
        onwards = self._relay_all(place) if following is None else [Send(following, begin)]
        return Reaction([*over_new, *onwards])

    def _relay_all(self, place: CyclePlace) -> list[Effect]:
        if not self._state.at.relay:
            return []  # error BEGIN: nobody to send to
        relayed = super()._relay_all(place)
        return [*relayed, *self._end_relaying(place)] if place.other_passed else relayed  # lines 14 to 17

    # Separator (Algorithm 4) and end (Algorithm 5) ---------------------------------------------------------------

    def _separator(self, place: CyclePlace, sender: Node, message: Separator) -> Reaction:
        if Misprint.SENDER in self._errors and sender == self._state.at.relay:
            place.is_gray = True
        return super()._separator(place, sender, message)

    def _end_relaying(self, place: CyclePlace) -> list[Effect]:
        """Lines 22 and 23."""
        if not place.is_relaying and Misprint.BEGIN not in self._errors:
            return []  # `begin` is still to come
        ended = super()._end_relaying(place)
        self._state.at.relay = UNSET
        return ended

    def _end_of_relay(self, place: CyclePlace, message: EndOfRelay) -> Reaction:
        handled = super()._end_of_relay(place, message)
        at = self._state.at
        if not place.is_ended:
            return handled  # it has only come by here
        at.relay = UNSET
        has_unlock = (at.left, at.right) in ((at.new, UNSET), (UNSET, at.new), (UNSET, UNSET))  # lines 8, 9
        unlocked = self._unlock(self._context.name) if has_unlock else self._finish_if_mended(place)
        return Reaction([*handled.effects, *unlocked], place.releasable(self._ordering))

    # Unlock (Algorithm 6) ----------------------------------------------------------------------------------------

    def _finish(self, place: CyclePlace) -> list[Effect]:
        """Both separators have passed; an end of r begins to unlock (Algorithm 4, lines 32 to 39)."""
        at = self._state.at
        if Misprint.UNLOCK not in self._errors:
            return self._finish_if_mended(place)
        if not at.old:
            return []
        unlocked = self._unlock(at.old)
        at.old = UNSET
        return [*unlocked, *self._close_old(place)]

    def _finish_if_mended(self, place: CyclePlace) -> list[Effect]:
        """Nobody needs to be told: all is over when both separators have passed, and at Ba the end of relaying."""
        is_finished = place.is_clear and not (self._state.at.new and self._state.at.relay)
        if Misprint.UNLOCK in self._errors or not is_finished:
            return []
        self._state.is_unlocked = True
        return super()._finish(place)

    def _unlock(self, sender: Node) -> list[Effect]:
        at = self._state.at
        receivers = [node for node in self._told_of_unlock(sender) if node != (at.new if at.relay else UNSET)]  # 11
        at.left = UNSET if sender == at.left else at.left  # 12
        at.right = UNSET if sender == at.right else at.right  # 13
        is_activated = at.new in receivers
        at.new = UNSET if is_activated else at.new  # 14
        if not at.new:  # 15
            self._turn_black()
        self._state.is_unlocked = at.left == at.right == at.new == UNSET  # 16
        opened = self._open_new(self._state.place) if is_activated else []
        return [*opened, *(Send(node, Unlock(self.cycle.operation)) for node in receivers)]

    def _told_of_unlock(self, sender: Node) -> list[Node]:
        """Lines 3 to 10."""
        at = self._state.at
        if sender != at.new and at.left and at.right:  # the first one
            return [node for node in (at.left, at.right) if sender != at.old or node != at.old]
        if at.new and not (at.left and at.right):  # the second one, at an end of a
            return [at.new]
        return []  # an acknowledgement

    def _turn_black(self) -> None:
        self._state.place.is_gray = False
        self._state.is_colourless = True
        self.seam = self._at_seam()
