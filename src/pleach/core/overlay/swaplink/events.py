"""Events during a swap: while a–b, b–c and a–c are all open, and while paths change (S0 §IV-A).

In states 2 and 3 an event from outside the three goes to both others with the `flood` mark, and what is flooded is not
sent on among the three. FIFO on each side of a triangle is not causal order, though (docs/protocols/swaplink.md): so
the corrected protocol also

  (i)   passes a flooded event, when it comes straight from where it came among the three, to the third broker before
        it is delivered, and drops the copy that comes second;
  (ii)  lets a, on the new routing already, do so for what b floods, until close(ba);
  (iii) lets no event overtake a held one of its link, where causal order is kept.

Since all that is flooded passes by b as well, b can give the swap up until it has sent `Swap` on to c: a and c then
forget the link between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import Forward, Install, Mark, Marked, Node, Publish, PublishRefused, Withdraw
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale
from pleach.core.routing.renewal_relay import UNANSWERED


class SwapRole(IntEnum):
    A = 0
    B = 1
    C = 2


class SwapPhase(IntEnum):
    """The states of S0 §IV-A; ADOPTED is its state 0 with the new configuration, until all paths are closed."""

    LOCKED = 1  # old routing; other reconfigurations are refused
    FLOODING = 2
    SWAPPING = 3  # flooding goes on; everybody is in state 2 or 3
    ADOPTED = 4
    ABORTING = 5  # old routing again, until nothing that was flooded is under way


class Swapping(msgspec.Struct):
    """One swap at one of its three brokers."""

    operation: str
    a: Node
    b: Node
    c: Node
    role: SwapRole
    is_corrected: bool
    phase: SwapPhase = SwapPhase.LOCKED
    closed_ab: bool = False  # as far as this broker has been told
    closed_ba: bool = False
    seen: dict[str, None] = {}  # flooded events that came here
    owed: dict[str, None] = {}  # of these, those of c of which so far only a copy came
    dead: list[Node] = []  # of the other two
    waiting: dict[Node, None] = {}  # links that wait for what becomes of the swap without them

    @property
    def is_flooding(self) -> bool:
        return self.phase in (SwapPhase.FLOODING, SwapPhase.SWAPPING)

    @property
    def is_over(self) -> bool:
        """Its paths are closed here, and what was copied has come on the straight way too."""
        closed = (self.closed_ba, self.closed_ab, self.closed_ab and self.closed_ba)[self.role]
        return self.phase is SwapPhase.ADOPTED and closed and not self.owed

    @property
    def others(self) -> tuple[Node, Node]:
        return ((self.b, self.c), (self.a, self.c), (self.a, self.b))[self.role]


class Triangle:
    """How one of the three treats what arrives and leaves, as its phase has it.

    `end_if_over`: called when an event has come that the swap may have waited for.
    """

    def __init__(self, swap: Swapping, end_if_over: Callable[[], None], *, keeps_causal_order: bool) -> None:
        self._swap = swap
        self._end_if_over = end_if_over
        self.keeps_causal_order = keeps_causal_order

    @property
    def peers(self) -> frozenset[Node]:
        swap = self._swap
        if swap.phase is SwapPhase.ABORTING:
            return frozenset()  # what still comes over the new link has come another way
        return frozenset(swap.others)

    # Arriving ------------------------------------------------------------------------------------------------

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if sender not in self._swap.others:
            return self._from_outside(sender, message)
        if isinstance(message, Marked):
            return self._marked(sender, message)
        if isinstance(message, Forward):
            return self._plain(sender, message)
        return self._routing(sender, message)

    def _from_outside(self, sender: Node, message: Passing) -> Verdict:
        swap = self._swap
        if swap.dead and swap.is_flooding and isinstance(message, Forward | Marked | Publish):
            swap.waiting[sender] = None
            return Hold()
        return stale(sender, message)

    def _marked(self, sender: Node, message: Marked) -> Verdict:
        if message.operation != self._swap.operation:
            return stale(sender, message)
        if message.mark is Mark.RELAY:
            return Pass(sender, message.message) if self._is_closed_before(sender) else Hold()
        if self._waits_for_close(sender):
            return Hold()
        return self._flooded(sender, message)

    def _is_closed_before(self, relay: Node) -> bool:
        """Whether the path is closed that what `relay` relays would overtake."""
        swap = self._swap
        assert relay == swap.c, "only c relays"
        return swap.closed_ba if swap.role is SwapRole.A else swap.closed_ab

    def _waits_for_close(self, sender: Node) -> bool:
        """The first two ChangePaths: on the new link nothing overtakes what went by way of b."""
        match self._swap:
            case Swapping(role=SwapRole.A, phase=SwapPhase.LOCKED):
                return sender == self._swap.c
            case Swapping(role=SwapRole.C, phase=SwapPhase.FLOODING):
                return sender == self._swap.a
            case Swapping(role=SwapRole.A, phase=SwapPhase.SWAPPING, b=b, dead=dead) if b in dead:
                return sender == self._swap.c  # if the swap is undone it comes by the stand-in of b
            case Swapping(role=SwapRole.B, phase=SwapPhase.SWAPPING, dead=dead) if dead:
                self._swap.waiting[sender] = None
                return True  # if the swap is undone it is to be passed on as ever
        return False

    def _flooded(self, sender: Node, message: Marked) -> Verdict:
        swap = self._swap
        key = str(message.message.event.id)
        is_straight = sender == message.origin
        if key in swap.seen:
            if is_straight:
                swap.owed.pop(key, None)
                self._end_if_over()
            return Drop("seen before")
        if swap.phase is SwapPhase.ABORTING and not is_straight:
            return Drop("a copy")
        if swap.is_corrected:
            swap.seen[key] = None
        if not is_straight and message.origin == swap.c and swap.c not in swap.dead:
            swap.owed[key] = None
        return Pass(sender, message.message, self._copies(sender, message) if is_straight else ())

    def _copies(self, sender: Node, message: Marked) -> Sequence[Send]:
        """Rules (i) and (ii). Over a–b nothing is sent any more once the sender has closed it."""
        swap = self._swap
        third = next(node for node in swap.others if node != sender)
        is_open = swap.is_flooding or (swap.role is SwapRole.A and third == swap.c)
        return [Send(third, message)] if swap.is_corrected and is_open and third not in swap.dead else []

    def _plain(self, sender: Node, message: Forward) -> Verdict:
        swap = self._swap
        if swap.phase is SwapPhase.ABORTING and str(message.event.id) in swap.seen:
            return Drop("seen before")
        return Pass(sender, message)

    def _routing(self, sender: Node, message: Passing) -> Verdict:
        """Tables change hands once what went before has arrived: what comes from c waits for that."""
        swap = self._swap
        match swap.role, swap.phase:
            case SwapRole.A, SwapPhase.ADOPTED if not swap.closed_ba:
                return Hold() if sender == swap.c else self._late(message)
            case SwapRole.B, SwapPhase.SWAPPING if sender == swap.c:
                return Hold()
        return Pass(sender, message)  # type: ignore[arg-type]

    def _late(self, message: Passing) -> Verdict:
        """What b told a before it passed on `Swap` is part of what a has from c now; nobody waits for an answer."""
        c = self._swap.c
        match message:
            case Install(layer, _, owner, wanted):
                return Pass(c, Install(layer, UNANSWERED, owner, wanted))
            case Withdraw():
                return Pass(c, message)
        return Drop("the link is closing, and both ends ask again over the new one")

    # Leaving -------------------------------------------------------------------------------------------------

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        if self._is_flooded_here(cause):
            return self._outwards(sends)
        if not isinstance(cause, Marked | Forward | Publish) or _is_refused(sends):
            return sends
        if source in self._swap.others:
            return [self._relayed(source, send) for send in sends]
        if not self._swap.is_flooding:
            return sends
        event = cause.message.event if isinstance(cause, Marked) else cause.event
        return [*self._floods(Forward(event)), *self._outwards(sends)]

    def _is_flooded_here(self, cause: Passing) -> bool:
        swap = self._swap
        return (
            isinstance(cause, Marked)
            and cause.operation == swap.operation
            and cause.mark is Mark.FLOOD
            and swap.phase is not SwapPhase.ABORTING
        )

    def _floods(self, forward: Forward) -> list[Send]:
        swap = self._swap
        own = (swap.a, swap.b, swap.c)[swap.role]
        message = Marked(swap.operation, Mark.FLOOD, own, forward)
        return [Send(node, message) for node in swap.others]

    def _outwards(self, sends: Sequence[Send]) -> list[Send]:
        return [send for send in sends if send.to not in self._swap.others]

    def _relayed(self, source: Node, send: Send) -> Send:
        """c marks what it relays, until the receiver has said that the old path is closed."""
        swap = self._swap
        if swap.role is not SwapRole.C or not isinstance(send.message, Forward):
            return send
        is_closed = swap.closed_ab if source == swap.a else swap.closed_ba
        if is_closed or send.to not in swap.others:
            return send
        return Send(send.to, Marked(swap.operation, Mark.RELAY, source, send.message))


def _is_refused(sends: Sequence[Send]) -> bool:
    return any(isinstance(send.message, PublishRefused) for send in sends)
