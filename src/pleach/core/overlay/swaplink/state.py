"""What one of the three brokers of a swap keeps of it, and how it goes back to the old tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, Observe, Send, SetTimer, phase_seen
from pleach.core.messages import Abort, Aborted, Lock, LockNack, Node, RequestSwap, TableEntries
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.retries import Retries
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import tables as swap_tables
from pleach.core.overlay.swaplink.events import SwapPhase, Swapping, SwapRole, Triangle

LEASE_SECONDS = 10.0

LEASE: Final = "swaplink:lease"
RETRY: Final = "swaplink:retry:"

NOTHING = Reaction()


class SwapLinkState(msgspec.Struct):
    swap: Swapping | None = None
    request: RequestSwap | None = None  # at a: what the swap under way was asked for
    attempts: int = 0  # at a: how often it was put off before
    begun: int = 0  # swaps that this broker began as a: each has a name of its own on the wire
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))
    side_b: list[TableEntries] = msgspec.field(default_factory=list)  # at b: what it has sent to c as its own side


class SwapPart:
    """`triangle`: what has a say at the seam while a swap is under way."""

    def __init__(self, context: BrokerContext, ordering: str) -> None:
        self._context = context
        self._ordering = ordering
        self.state = SwapLinkState()
        self.triangle: Triangle | None = None

    def begin(self, lock: Lock, role: SwapRole) -> list[Effect]:
        swap = Swapping(lock.operation, lock.a, lock.b, lock.c, role, is_corrected=not lock.is_published)
        self.state.swap = swap
        self.triangle = self.make_triangle(swap)
        return [_note(swap)]

    def make_triangle(self, swap: Swapping) -> Triangle:
        keeps_causal_order = swap.is_corrected and self._ordering == "causal"
        return Triangle(swap, self.end_if_over, keeps_causal_order=keeps_causal_order)

    def undone(self, swap: Swapping, reason: str, *, is_busy: bool) -> Reaction:
        """At a: the link to c is not wanted any more, nor what came over it; unless c has joined here meanwhile."""
        request = self.request()
        if is_busy:
            outcome = self.state.retries.put_off(request, self.state.attempts, reason)
        else:
            outcome = [Concluded(request.operation, reason)]
        forsaken = (swap.operation, swap.c)
        if swap.c in self._context.router.neighbours:
            return Reaction(outcome, released=[swap.c], forsaken=forsaken)
        return Reaction([LinkDown(swap.c), *outcome], discarded=[swap.c], forsaken=forsaken)

    def give_up(self) -> Reaction:
        """At b: a or c has not answered within its lease, or is dead. What it says of this swap later is void.

        Not tried again: a and b would be locked for another lease at once.
        """
        swap = self.state.swap
        if swap is None or swap.role is not SwapRole.B or swap.phase not in (SwapPhase.LOCKED, SwapPhase.FLOODING):
            return NOTHING
        abort = Abort(swap.operation)
        if swap.phase is SwapPhase.LOCKED:
            self.end()
            reason = died(swap) or f"{swap.c} has not answered {swap.b} for {LEASE_SECONDS:g} s"
            return Reaction([CancelTimer(LEASE), Send(swap.c, abort), Send(swap.a, LockNack(swap.operation, reason))])
        return Reaction([CancelTimer(LEASE), Send(swap.c, abort), Send(swap.a, abort), *self.enter(SwapPhase.ABORTING)])

    def undo(self, swap: Swapping) -> Reaction:
        """Back to the old tree, at once."""
        noted = self.enter(SwapPhase.ABORTING)
        suspended = {SwapRole.A: [swap.b], SwapRole.B: [swap.a, swap.c], SwapRole.C: [swap.b]}[swap.role]
        resumed = self.resume([node for node in suspended if node not in swap.dead])
        self.end()
        match swap.role:
            case SwapRole.A:
                undone = self.undone(swap, died(swap), is_busy=False)
                return undone._replace(effects=[*noted, *resumed, *undone.effects])
            case SwapRole.C:
                forsaken = (swap.operation, swap.a)
                return Reaction([LinkDown(swap.a), *noted, *resumed], discarded=[swap.a], forsaken=forsaken)
        return Reaction([*noted, *resumed])

    def aborted(self, swap: Swapping) -> Reaction:
        if swap.role is SwapRole.A and swap.phase is SwapPhase.SWAPPING:
            return self.undo(swap)  # c is dead, and b has let go of it
        self.end()
        return Reaction([Send(swap.a, Aborted(swap.operation))] if swap.role is SwapRole.B else [])

    def resume(self, neighbours: Sequence[Node]) -> list[Effect]:
        return self._context.rewire(swap_tables.old(self._context.router, neighbours)) if neighbours else []

    def enter(self, phase: SwapPhase) -> list[Effect]:
        assert self.state.swap is not None
        self.state.swap.phase = phase
        return [_note(self.state.swap)]

    def end(self) -> None:
        self.state.swap = None
        self.state.side_b = []
        self.triangle = None

    def end_if_over(self) -> None:
        """To be called after whatever may be the last that a swap has waited for: a message, a death, or an event."""
        if self.state.swap is not None and self.state.swap.is_over:
            self.end()

    def request(self) -> RequestSwap:
        assert self.state.request is not None, "only a is asked"
        return self.state.request

    def lease(self) -> list[Effect]:
        assert self.state.swap is not None
        return [SetTimer(LEASE, LEASE_SECONDS)] if self.state.swap.is_corrected else []


def _note(swap: Swapping) -> Observe:
    return phase_seen("swap", swap.operation, f"{swap.role.name.lower()} {swap.phase.name.lower()}")


def died(swap: Swapping) -> str:
    return f"{' and '.join(swap.dead)} died meanwhile, or lost its memory" if swap.dead else ""
