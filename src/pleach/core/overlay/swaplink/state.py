"""One swap at one of its three brokers."""

from __future__ import annotations

from typing import Final

import msgspec

from pleach.core.effects import Concluded, Effect, LinkDown, Observe, Send, phase_seen
from pleach.core.messages import Close, Lock, Message, Node, RequestSwap, TableEntries
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.retries import Retries
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink.paths import AB, ABC, BA, CBA, ChangePath
from pleach.core.overlay.swaplink.transitions import OUTCOMES, TRANSITIONS, Sender, SwapFate, SwapPhase, SwapRole

RETRY: Final = "swaplink:retry:"


class Swapping(msgspec.Struct):
    """A swap as one of the three sees it. `closed_ab`, `closed_ba`: whether that `close` has come by here."""

    operation: str
    a: Node
    b: Node
    c: Node
    role: SwapRole
    is_corrected: bool  # else it is the published protocol: no copies, no order behind held events, no lease
    phase: SwapPhase = SwapPhase.IDLE
    closed_ab: bool = False
    closed_ba: bool = False
    seen: dict[str, None] = {}  # flooded events that have come here
    owed: dict[str, None] = {}  # those of c of which only a copy has come so far
    lost: list[Node] = []  # which of the other two have lost their memory, and the swap with it
    waiting: dict[Node, None] = {}  # links that wait for what becomes of the swap without them

    @property
    def is_flooding(self) -> bool:
        return self.phase in (SwapPhase.FLOODING, SwapPhase.SWAPPING)

    @property
    def is_leased(self) -> bool:
        """Whether this is b, and waits for c or a: it may still give up."""
        return self.role is SwapRole.B and self.phase in (SwapPhase.LOCKED, SwapPhase.FLOODING)

    def is_closed(self, path: ChangePath) -> bool:
        """Whether close(path.old) has come by here."""
        closed = {
            CBA: self.phase > SwapPhase.LOCKED,
            ABC: self.phase > SwapPhase.FLOODING,
            AB: self.closed_ab,
            BA: self.closed_ba,
        }
        return closed[path]

    @property
    def is_over(self) -> bool:
        """Whether the broker has closed its paths, and every event of which it has a copy has come straight, too."""
        if self.phase is not SwapPhase.ADOPTED or self.owed:
            return False  # asked after every event
        return all(map(self.is_closed, {SwapRole.A: (BA,), SwapRole.B: (AB,), SwapRole.C: (AB, BA)}[self.role]))

    @property
    def others(self) -> tuple[Node, Node]:
        return ((self.b, self.c), (self.a, self.c), (self.a, self.b))[self.role]

    def role_of(self, node: Node) -> Sender:
        """None for a broker that is none of the three."""
        return {self.a: SwapRole.A, self.b: SwapRole.B, self.c: SwapRole.C}.get(node)


class SwapLinkState(msgspec.Struct):
    swap: Swapping | None = None
    request: RequestSwap | None = None  # at a: what the swap under way was asked for
    attempts: int = 0  # at a: how often it was put off before
    begun: int = 0  # swaps that this broker began as a: each has a name of its own on the wire
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))
    side_b: list[TableEntries] = msgspec.field(default_factory=list)  # at b: what it has sent to c as its own side


class SwapPart:
    """The swap under way at one broker. Its phase changes here, by the tables of transitions.py, and nowhere else."""

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.state = SwapLinkState()

    @property
    def operation(self) -> str:
        return "" if self.state.swap is None else self.state.swap.operation

    def begin(self, lock: Lock, role: SwapRole, message: type[Message], sender: Sender) -> Swapping:
        swap = Swapping(lock.operation, lock.a, lock.b, lock.c, role, is_corrected=not lock.is_published)
        swap.phase = TRANSITIONS[role, SwapPhase.IDLE, message, sender]
        self.state.swap = swap
        return swap

    def advance(self, swap: Swapping, message: type[Message], sender: Sender) -> list[Effect]:
        return self._enter(swap, TRANSITIONS[swap.role, swap.phase, message, sender])

    def decide(self, swap: Swapping, fate: SwapFate) -> list[Effect]:
        return self._enter(swap, OUTCOMES[swap.role, swap.phase, fate])

    def _enter(self, swap: Swapping, phase: SwapPhase) -> list[Effect]:
        if phase is swap.phase:
            return []
        swap.phase = phase
        if phase is SwapPhase.IDLE:
            self._end()
            return []
        return [note(swap, phase)]

    def end_if_over(self) -> None:
        """To be called after whatever a swap may have waited for last: a message, a reset, or an event."""
        if self.state.swap is not None and self.state.swap.is_over:
            self._end()

    def _end(self) -> None:
        self.state.swap = None
        self.state.side_b = []

    def request(self) -> RequestSwap:
        assert self.state.request is not None, "only a is asked"
        return self.state.request

    def done_at_a(self, swap: Swapping) -> Reaction:
        """11: all that b has sent a is here. a tells c so (12), and drops a–b."""
        swap.closed_ba = True
        closed = Send(swap.c, Close(swap.operation))
        return Reaction([closed, LinkDown(swap.b), Concluded(self.request().operation)], released=[swap.c])

    def undone_at_a(self, swap: Swapping, reason: str, *, is_busy: bool) -> Reaction:
        """The link to c is dropped with all that came over it, unless c has joined here meanwhile."""
        request = self.request()
        if is_busy:
            outcome = self.state.retries.put_off(request, self.state.attempts, reason)
        else:
            outcome = [Concluded(request.operation, reason)]
        forsaken = (swap.operation, swap.c)
        if swap.c in self.context.router.neighbours:
            return Reaction(outcome, released=[swap.c], forsaken=forsaken)
        return Reaction([LinkDown(swap.c), *outcome], discarded=[swap.c], forsaken=forsaken)


def note(swap: Swapping, phase: SwapPhase) -> Observe:
    return phase_seen("swap", swap.operation, f"{swap.role.name.lower()} {phase.name.lower()}")
