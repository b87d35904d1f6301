"""Advanced coordinated reconfiguration as S1 prints it (§4.4.2), with its errors: for comparisons, not for use.

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

Each error can be left out; it is then corrected in S1's own terms. Read in S1's favour: what is sent to an unset
pointer goes to no broker; a broker at both links has both roles (Algorithm 2, lines 9 to 12, gives it the one at a);
what travels out of band stays in order. It travels along the cycle here, and waits at Ba. S1 has no states that a
message could be illegal in, but pointers that are set or not: the table here says which roles get which messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum, auto

import msgspec

from pleach.core.effects import Effect, Send, SetTimer
from pleach.core.messages import Begin, EndOfRelay, Message, Node, RelayRouting, RelayTables, Separator, Unlock
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.advanced_coordinated import (
    AdvancedCoordinated,
    ColourSeam,
    ColourState,
    OtherSide,
    OwnSide,
    SeparatorWay,
)
from pleach.core.overlay.exchange.contract import PART, Input, Start, TimerDue, Transitions
from pleach.core.overlay.exchange.cycle import OF_NEW, OF_NONE, OF_OLD, Cycle, CycleRole
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


class UnlockPhase(StrEnum):
    """S1 Algorithm 6, at one broker."""

    LOCKED = "locked"
    COLOURLESS = "colourless"  # what decides on colours here is unset (line 15)
    UNLOCKED = "unlocked"


class PrintedState(ColourState):
    at: Pointers = msgspec.field(default_factory=Pointers)
    out_of_band: list[RelayTables | RelayRouting | Separator | EndOfRelay] = msgspec.field(default_factory=list)
    lock: UnlockPhase = UnlockPhase.LOCKED


class MendedColouring(ColourSeam):
    """Where both separators have passed no event is black, whether the broker that sent it has finished or not."""

    def _is_gray(self, source: Node, cause: Passing) -> bool:
        return self._state.is_clear or super()._is_gray(source, cause)


class Colourless:
    """Algorithms 7 and 8 where Bnew and Bold are unset: nothing is queued, dropped or coloured."""

    keeps_causal_order = True

    def __init__(self, peers: frozenset[Node]) -> None:
        self.peers = peers

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        return stale(sender, message)

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        return sends


def _in_any_phase(inputs: Sequence[tuple[CycleRole, type | Enum]]) -> Transitions:
    phases: list[type[StrEnum]] = [OwnSide, OtherSide]
    return {
        (role, phase, each): tuple(type(phase))
        for roles, each in inputs
        for role in roles
        for phase in (member for phases_of_one in phases for member in phases_of_one)
    }


class AdvancedCoordinatedPrinted(AdvancedCoordinated):
    TRANSITIONS = _in_any_phase(
        [
            (CycleRole.U, Start),
            (OF_NEW, TimerDue),
            (CycleRole.V | OF_OLD | OF_NONE, Begin),
            *((OF_NEW | OF_NONE, each) for each in (RelayTables, RelayRouting, EndOfRelay, SeparatorWay.RELAYED)),
            *(
                (OF_NEW | OF_OLD | OF_NONE, each)
                for each in (SeparatorWay.TO_OLD, SeparatorWay.TO_NEW, SeparatorWay.OTHER, Unlock)
            ),
        ]
    )
    State = PrintedState
    state: PrintedState

    def __init__(
        self, context: BrokerContext, cycle: Cycle, ordering: str, *, errors: frozenset[Misprint] = frozenset(Misprint)
    ) -> None:
        self._errors = errors
        super().__init__(context, cycle, ordering)

    def _fresh(self) -> PrintedState:
        return PrintedState(at=Pointers.of(self.cycle, self.name))

    def _at_seam(self) -> Reconfiguration:
        if Misprint.UNLOCK not in self._errors:
            return self._colouring(MendedColouring)
        colouring = self._colouring(ColourSeam)
        return colouring if self.state.lock is UnlockPhase.LOCKED else Colourless(colouring.peers)

    @property
    def is_over(self) -> bool:
        return self.state.lock is UnlockPhase.UNLOCKED

    def _input(self, sender: Node, message: Message) -> Input | None:
        return self._passage(sender, message) if isinstance(message, Separator) else type(message)

    # Out of band -------------------------------------------------------------------------------------------------

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Unlock():
                return Reaction(self._unlock(sender))
            case RelayTables() | RelayRouting() | EndOfRelay() | Separator(is_relayed=True) if self.state.at.new:
                return self._out_of_band(sender, message)
        return super()._react(sender, message)

    def _out_of_band(self, sender: Node, message: RelayTables | RelayRouting | EndOfRelay | Separator) -> Reaction:
        """At Ba: it is here, but might as well be late. What Ba sends itself is not (Algorithm 8, line 8)."""
        if sender == self.name:
            return super()._react(sender, message)
        self.state.out_of_band.append(message)
        return Reaction(self.resume())

    def resume(self) -> list[Effect]:
        return [SetTimer(PART, OUT_OF_BAND_SECONDS)] if self.state.out_of_band else []

    def _due(self) -> Reaction:
        waiting, self.state.out_of_band = self.state.out_of_band, []
        handled = [super(AdvancedCoordinatedPrinted, self)._react(self.state.at.relay, message) for message in waiting]
        effects = [effect for each in handled for effect in each.effects]
        return Reaction(effects, list(dict.fromkeys(link for each in handled for link in each.released)))

    # Begin (Algorithm 3) -----------------------------------------------------------------------------------------

    def _begun(self) -> Reaction:
        """Algorithm 2, line 31: from u both ways."""
        begin = Begin(self.cycle.operation)
        over_new = [Send(self.cycle.v, begin)] if self.name == self.cycle.u else []
        following = self.cycle.towards_old(self.name)
        onwards = self._relay_all() if following is None else [Send(following, begin)]
        return Reaction([*over_new, *onwards])

    def _relay_all(self) -> list[Effect]:
        if not self.state.at.relay:
            return []  # error BEGIN: there is no broker to send to
        relayed = super()._relay_all()
        return [*relayed, *self._end_relaying(has_begun=True)] if self.state.other_passed else relayed  # lines 14 to 17

    # Separator (Algorithm 4) and end (Algorithm 5) ---------------------------------------------------------------

    def _separator(self, sender: Node, message: Separator) -> Reaction:
        is_mistaken = Misprint.SENDER in self._errors and sender == self.state.at.relay
        if is_mistaken and self.state.own is OwnSide.BLACK:
            self.state.own = OwnSide.GRAY
        return super()._separator(sender, message)

    def _passed(self) -> OtherSide:
        is_early = self._over_new and self.state.other is not OtherSide.ENDED
        return OtherSide.PASSED_EARLY if is_early else OtherSide.PASSED

    def _end_relaying(self, *, has_begun: bool) -> list[Effect]:
        """Lines 22 and 23."""
        if not has_begun and Misprint.BEGIN not in self._errors:
            return []  # `begin` is still to come
        ended = super()._end_relaying(has_begun=has_begun)
        self.state.at.relay = UNSET
        return ended

    def _end_of_relay(self, message: EndOfRelay) -> Reaction:
        handled = super()._end_of_relay(message)
        state, at = self.state, self.state.at
        if not self._over_new:
            return handled  # it is only passed on here
        if state.other is OtherSide.PASSED_EARLY:
            state.other = OtherSide.PASSED
        at.relay = UNSET
        has_unlock = (at.left, at.right) in ((at.new, UNSET), (UNSET, at.new), (UNSET, UNSET))  # lines 8, 9
        unlocked = self._unlock(self.name) if has_unlock else self._finish_if_mended()
        return Reaction([*handled.effects, *unlocked], self._releasable)

    # Unlock (Algorithm 6) ----------------------------------------------------------------------------------------

    def _finish(self) -> list[Effect]:
        """Both separators have passed; an end of r begins to unlock (Algorithm 4, lines 32 to 39)."""
        at = self.state.at
        if Misprint.UNLOCK not in self._errors:
            return self._finish_if_mended()
        if not at.old:
            return []
        unlocked = self._unlock(at.old)
        at.old = UNSET
        return [*unlocked, *self._close_old()]

    def _finish_if_mended(self) -> list[Effect]:
        """No message is needed: all is over when both separators have passed, and at Ba the end of relaying."""
        is_finished = self.state.is_clear and not (self.state.at.new and self.state.at.relay)
        if Misprint.UNLOCK in self._errors or not is_finished:
            return []
        self.state.lock = UnlockPhase.UNLOCKED
        return super()._finish()

    def _unlock(self, sender: Node) -> list[Effect]:
        at = self.state.at
        receivers = [node for node in self._told_of_unlock(sender) if node != (at.new if at.relay else UNSET)]  # 11
        at.left = UNSET if sender == at.left else at.left  # 12
        at.right = UNSET if sender == at.right else at.right  # 13
        is_activated = at.new in receivers
        at.new = UNSET if is_activated else at.new  # 14
        is_unlocked = at.left == at.right == at.new == UNSET  # 16
        if not at.new:  # 15
            self.state.lock = UnlockPhase.UNLOCKED if is_unlocked else UnlockPhase.COLOURLESS
            self.seam = self._at_seam()
        opened = self._open_new() if is_activated else []
        return [*opened, *(Send(node, Unlock(self.cycle.operation)) for node in receivers)]

    def _told_of_unlock(self, sender: Node) -> list[Node]:
        """Lines 3 to 10."""
        at = self.state.at
        if sender != at.new and at.left and at.right:  # the first one
            return [node for node in (at.left, at.right) if sender != at.old or node != at.old]
        if at.new and not (at.left and at.right):  # the second one, at an end of a
            return [at.new]
        return []  # an acknowledgement
