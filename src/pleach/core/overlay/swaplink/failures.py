"""What S0 does not have (its brokers do not fail): leases, and brokers that lose their memory.

Until b has passed on `Swap` (6), all that a and c have flooded has come by b as well: so b can give the swap up, and a
and c drop the link between them. b does so when a or c has not answered within a lease (not in the published protocol).

If one of the three loses its memory, the swap is *lost* to it: it is completed once c is on the new routing, and undone
before that. The broker that can tell decides, by FATES and OUTCOMES, and tells the others:

    lost   decides                                              the others
    a      b, until it has passed `Swap` on: undone;            wait for what b or c says
           then c, which has got it: completed
    b      c: on the new routing, or not                        a asks c, and waits for `Swap` or `Abort`
    c      b, until it has passed `Swap` on: undone;            b waits for `Close` or `Abort` from a
           then a, which has heard of c, or never will
    two    the third, for itself: undone unless it has adopted the new routing

An operator may abandon a swap as long as b has not passed `Swap` on: at b, which gives up as if a lease were over; or
at a, as long as a has not said `Swap`. Then a is free at once: it has let nothing in that came over a–c, and b passes
copies of all of that (seam.py, rule 5), until it hears `SwapAbandoned` behind `Lock`, and gives up as well.

What the lost broker had sent before and is not here yet never comes. Until the swap is decided, events from outside
are held: their way depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pleach.core.effects import CancelTimer, Effect, LinkDown, Send, SetTimer
from pleach.core.messages import Abort, Aborted, Close, Forgot, LockNack, Message, Node, SwapAbandoned
from pleach.core.overlay.abandonment import ABANDONED, OpenOperation
from pleach.core.overlay.seam import Reaction, join
from pleach.core.overlay.swaplink import sides
from pleach.core.overlay.swaplink.state import SwapPart, Swapping, note
from pleach.core.overlay.swaplink.transitions import FATES, OPEN, PRINTED_AS, SwapFate, SwapPhase, SwapRole

LEASE_SECONDS = 10.0
LEASE: Final = "swaplink:lease"

NOTHING = Reaction()


def fate(swap: Swapping) -> SwapFate:
    losses = FATES[swap.role, swap.phase]
    if len(swap.lost) > 1:
        return losses.both
    return losses.first if swap.lost[0] == swap.others[0] else losses.second


def lease(swap: Swapping) -> list[Effect]:
    """How long b waits for the next answer. In the published protocol it waits for ever."""
    return [SetTimer(LEASE, LEASE_SECONDS)] if swap.is_corrected else []


def waits_for_decision(swap: Swapping, sender: Node) -> bool:
    """Whether a flooded event is held until it is decided what becomes of the swap; at b its link is noted."""
    match swap.role, swap.phase:
        case SwapRole.A, SwapPhase.SWAPPING if swap.b in swap.lost:
            return sender == swap.c
        case SwapRole.B, SwapPhase.SWAPPING if swap.lost:
            swap.waiting[sender] = None
            return True
    return False


class SwapFailures:
    """The peer hook of SwapLink, and its messages that S0 does not have."""

    def __init__(self, part: SwapPart) -> None:
        self._part = part

    # Giving up -----------------------------------------------------------------------------------------------

    def lease_over(self) -> Reaction:
        swap = self._part.state.swap
        return self._give_up(swap) if swap is not None and swap.is_leased else NOTHING

    def opened(self, swap: Swapping) -> OpenOperation:
        awaited, why_not = OPEN[swap.role, swap.phase]
        others = tuple((swap.a, swap.b, swap.c)[role] for role in awaited)
        if not why_not and not swap.is_corrected:
            why_not = PRINTED_AS
        phase = f"swap {swap.role.name.lower()} {swap.phase.name.lower()}"
        return OpenOperation(swap.operation, phase, others, why_not.format(" and ".join(others)))

    def abandon(self, swap: Swapping) -> Reaction:
        if swap.role is SwapRole.B:
            return self._give_up(swap, ABANDONED)
        self._part.decide(swap, SwapFate.GIVE_UP)
        undone = self._part.undone_at_a(swap, ABANDONED, is_busy=False)
        return undone._replace(effects=[Send(swap.b, SwapAbandoned(swap.operation)), *undone.effects], untouched=True)

    def _give_up(self, swap: Swapping, reason: str = "") -> Reaction:
        """At b: a or c has not answered within its lease, or is lost. What it says of this swap later is void.

        The swap is not tried again: a and b would be locked for another lease at once.
        """
        before = swap.phase
        return self._given_up(swap, before, self._part.decide(swap, SwapFate.GIVE_UP), reason)

    def _given_up(self, swap: Swapping, before: SwapPhase, noted: Sequence[Effect], reason: str) -> Reaction:
        abort = Abort(swap.operation, reason)
        if before is SwapPhase.LOCKED:
            reason = reason or _forgotten(swap) or f"{swap.c} has not answered {swap.b} for {LEASE_SECONDS:g} s"
            return Reaction([CancelTimer(LEASE), Send(swap.c, abort), Send(swap.a, LockNack(swap.operation, reason))])
        return Reaction([CancelTimer(LEASE), Send(swap.c, abort), Send(swap.a, abort), *noted])

    def handle(self, swap: Swapping, sender: Node, message: Message) -> Reaction:
        before = swap.phase
        noted = self._part.advance(swap, type(message), swap.role_of(sender))
        match message, swap.role:
            case SwapAbandoned(), _:
                is_given_up = before is SwapPhase.ABORTING
                return NOTHING if is_given_up else self._given_up(swap, before, noted, ABANDONED)
            case Forgot(), SwapRole.C if sender == swap.a:
                return NOTHING  # c is b's neighbour: it hears of the loss itself, and decides then
            case Forgot(_, broker), _:
                return NOTHING if broker in swap.lost else self._lose(broker)
            case Abort(_, why), SwapRole.A if sender == swap.b:
                silence = f"{swap.a} was silent for {LEASE_SECONDS:g} s, and {swap.b} gave up"
                reason = _forgotten(swap) or why or silence
                resumed = self._resume([swap.b])
                undone = self._part.undone_at_a(swap, reason, is_busy=False)
                return undone._replace(effects=[*noted, *resumed, *undone.effects])
            case Abort(), SwapRole.A:
                return self._undo(swap)
            case Abort(), _:
                return join(Reaction([Send(sender, Aborted(swap.operation))]), self._undo(swap))
            case Aborted(), SwapRole.A if before is SwapPhase.SWAPPING:
                return self._undo(swap)  # c is lost, and b has given it up
        return _ended(swap)

    def _undo(self, swap: Swapping) -> Reaction:
        """Back to the old tree, at once: the swap has ended here."""
        noted = note(swap, SwapPhase.ABORTING)
        suspended = {SwapRole.A: [swap.b], SwapRole.B: [swap.a, swap.c], SwapRole.C: [swap.b]}[swap.role]
        resumed = self._resume([node for node in suspended if node not in swap.lost])
        match swap.role:
            case SwapRole.A:
                undone = self._part.undone_at_a(swap, _forgotten(swap), is_busy=False)
                return undone._replace(effects=[noted, *resumed, *undone.effects])
            case SwapRole.C:
                forsaken = (swap.operation, swap.a)
                return Reaction([LinkDown(swap.a), noted, *resumed], discarded=[swap.a], forsaken=forsaken)
        return Reaction([noted, *resumed], released=[swap.c])

    def _resume(self, neighbours: Sequence[Node]) -> list[Effect]:
        context = self._part.context
        return context.rewire(sides.old(context.router, neighbours)) if neighbours else []

    # Lost memories -------------------------------------------------------------------------------------------

    def peer_reset(self, peer: Node) -> Reaction:
        """It says nothing more of the swap, and what it had sent and is not here yet is void.

        b, which both others have for a neighbour, always hears of it, and tells the third if that one decides.
        """
        swap = self._part.state.swap
        if swap is None or (swap.role is SwapRole.A and swap.phase is SwapPhase.LOCKED and peer == swap.c):
            return NOTHING  # a cannot know whether b has asked c before or after
        outlived = join(self._lose(peer), Reaction(void=[peer]))
        is_under_way = swap is self._part.state.swap
        if not is_under_way or peer not in swap.lost or fate(swap) is not SwapFate.WAIT:
            return outlived
        match swap.role:
            case SwapRole.A if peer == swap.b:  # which may have given it up, and told c alone
                told = [Send(swap.c, Forgot(swap.operation, peer, is_asking=True))]
            case SwapRole.B:
                told = [Send(swap.c if peer == swap.a else swap.a, Forgot(swap.operation, peer))]
            case _:
                told = []
        return join(outlived, Reaction(told))

    def _lose(self, peer: Node) -> Reaction:
        """Nothing more comes from this peer."""
        swap = self._part.state.swap
        if swap is None or peer not in swap.others:
            return NOTHING
        swap.lost = sorted({*swap.lost, peer})
        handled = self.spare_the_lost(swap, self.face_loss(swap))
        self._part.end_if_over()
        return handled

    def face_loss(self, swap: Swapping) -> Reaction:
        """What follows from the losses known here, if any, in the phase that the swap is in now."""
        if not swap.lost:
            return NOTHING
        match fate(swap):
            case SwapFate.WAIT:
                return NOTHING
            case SwapFate.UNDO:
                self._part.decide(swap, SwapFate.UNDO)
                told = Reaction([Send(swap.a, Abort(swap.operation))] if swap.role is SwapRole.C else [])
                return join(told, self._undo(swap))
            case SwapFate.GIVE_UP:
                given_up = self._give_up(swap)
                if swap.phase is not SwapPhase.ABORTING or swap.c not in swap.lost:
                    return given_up
                self._part.decide(swap, SwapFate.END)
                return join(given_up, _ended(swap))
            case SwapFate.ASK:
                return Reaction([*self._part.decide(swap, SwapFate.ASK), Send(swap.b, Abort(swap.operation))])
            case SwapFate.COMPLETE:
                return self._complete(swap)
            case SwapFate.END:
                self._part.decide(swap, SwapFate.END)
                return _ended(swap)

    def _complete(self, swap: Swapping) -> Reaction:
        """As if the lost broker had closed its paths, and sent straight what came as a copy."""
        if swap.c in swap.lost:
            swap.owed.clear()
        match swap.role:
            case SwapRole.A if swap.b in swap.lost and not swap.closed_ba:
                return self._part.done_at_a(swap)
            case SwapRole.C:
                noted: list[Effect] = []
                if swap.b in swap.lost and not swap.closed_ab:
                    swap.closed_ab, noted = True, self._part.advance(swap, Close, SwapRole.B)
                swap.closed_ba = swap.closed_ba or swap.a in swap.lost
                return Reaction([*noted, *([] if swap.closed_ab else [Send(swap.b, Close(swap.operation))])])
        return NOTHING

    def spare_the_lost(self, swap: Swapping | None, handled: Reaction) -> Reaction:
        """Nothing is sent to those who are lost. What was held for the decision goes on once there is one."""
        if swap is None or not swap.lost:
            return handled
        effects = [each for each in handled.effects if not (isinstance(each, Send) and each.to in swap.lost)]
        if swap is self._part.state.swap and swap.is_flooding:
            return handled._replace(effects=effects)
        waiting, swap.waiting = sorted(swap.waiting), {}
        return handled._replace(effects=effects, released=[*handled.released, *waiting])


def _ended(swap: Swapping) -> Reaction:
    """Nothing that was flooded is under way any more; b tells a so."""
    return Reaction([Send(swap.a, Aborted(swap.operation))] if swap.role is SwapRole.B else [])


def _forgotten(swap: Swapping) -> str:
    return f"{' and '.join(swap.lost)} lost its memory meanwhile" if swap.lost else ""
