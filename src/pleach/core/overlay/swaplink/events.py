"""What one of the three brokers of a swap does with events and routing messages at the seam (S0 §IV-A).

In states 2 and 3 an event from outside the three goes to both others with the `flood` mark, and a flooded event is not
sent on among the three. While a path changes, its receiver holds what comes on the new path (paths.py).

FIFO on each side of a triangle is not causal order (docs/protocols/swaplink.md). So the corrected protocol has three
rules more, which the published one has not:

Rule 1: a broker that gets a flooded event straight from the one that flooded it passes a copy to the third before it
        delivers the event, and drops whichever comes second.
Rule 2: a does so for what b floods also when it is on the new routing already, until close(ba).
Rule 3: where causal order is kept, no event overtakes a held one of its link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pleach.core.effects import Send
from pleach.core.messages import Forward, Install, Mark, Marked, Node, Publish, PublishRefused, Withdraw
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale
from pleach.core.overlay.swaplink.failures import waits_for_decision
from pleach.core.overlay.swaplink.paths import CHANGE_PATHS
from pleach.core.overlay.swaplink.state import Swapping
from pleach.core.overlay.swaplink.transitions import SwapPhase, SwapRole
from pleach.core.routing.renewal_relay import UNANSWERED


class Triangle:
    """How one of the three treats what arrives and leaves, by its role and phase.

    `end_if_over`: called when an event has come that the swap may have waited for.
    """

    def __init__(self, swap: Swapping, end_if_over: Callable[[], None], *, ordering: str) -> None:
        self._swap = swap
        self._end_if_over = end_if_over
        self.keeps_causal_order = swap.is_corrected and ordering == "causal"

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
        if swap.lost and swap.is_flooding and isinstance(message, Forward | Marked | Publish):
            swap.waiting[sender] = None
            return Hold()
        return stale(sender, message)

    def _marked(self, sender: Node, message: Marked) -> Verdict:
        swap = self._swap
        if message.operation != swap.operation:
            return stale(sender, message)
        if self._waits_for_close(sender, message.mark):
            return Hold()
        if message.mark is Mark.RELAY:
            return Pass(sender, message.message)
        return Hold() if waits_for_decision(swap, sender) else self._flooded(sender, message)

    def _waits_for_close(self, sender: Node, mark: Mark) -> bool:
        """Whether it has come on the new path of a ChangePath whose old path is not closed."""
        swap = self._swap
        ends = swap.role, swap.role_of(sender)
        return any(path.ends_at(*ends, mark) and not swap.is_closed(path) for path in CHANGE_PATHS)

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
        if not is_straight and message.origin == swap.c and swap.c not in swap.lost:
            swap.owed[key] = None
        return Pass(sender, message.message, self._copies(sender, message) if is_straight else ())

    def _copies(self, sender: Node, message: Marked) -> Sequence[Send]:
        """Rules 1 and 2. Over a–b nothing is sent any more once the sender has closed it."""
        swap = self._swap
        third = next(node for node in swap.others if node != sender)
        is_open = swap.is_flooding or (swap.role is SwapRole.A and third == swap.c)
        return [Send(third, message)] if swap.is_corrected and is_open and third not in swap.lost else []

    def _plain(self, sender: Node, message: Forward) -> Verdict:
        swap = self._swap
        if swap.phase is SwapPhase.ABORTING and str(message.event.id) in swap.seen:
            return Drop("seen before")
        return Pass(sender, message)

    def _routing(self, sender: Node, message: Passing) -> Verdict:
        """What c tells is held until the tables of a and b are the new ones, and all that went before has come."""
        swap = self._swap
        match swap.role, swap.phase:
            case SwapRole.A, SwapPhase.ADOPTED if not swap.closed_ba:
                return Hold() if sender == swap.c else self._late(message)
            case SwapRole.B, SwapPhase.SWAPPING if sender == swap.c:
                return Hold()
        return Pass(sender, message)  # type: ignore[arg-type]

    def _late(self, message: Passing) -> Verdict:
        """What b told a before 6 belongs to what a has from c now; nobody waits for an answer to it."""
        c = self._swap.c
        match message:
            case Install(layer, _, owner, wanted):
                return Pass(c, Install(layer, UNANSWERED, owner, wanted))
            case Withdraw():
                return Pass(c, message)
        return Drop("the link is closing; both ends ask again over the new one")

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
        """c marks what it relays until the receiver has said that the old path is closed."""
        swap = self._swap
        if not isinstance(send.message, Forward):
            return send
        way = swap.role, swap.role_of(source), swap.role_of(send.to)
        if any(path.is_relayed_by(*way) and not swap.is_closed(path) for path in CHANGE_PATHS):
            return Send(send.to, Marked(swap.operation, Mark.RELAY, source, send.message))
        return send


def _is_refused(sends: Sequence[Send]) -> bool:
    return any(isinstance(send.message, PublishRefused) for send in sends)
