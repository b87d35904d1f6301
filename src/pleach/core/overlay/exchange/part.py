"""What the protocols without colours have in common (S1 §4.4.1, S2): how the new link comes and the old one goes.

    u          …          x ──r── y          …          v
    │                     │── removed ▶│                │        each end of r, when its protocol says so: it forgets
    │                     │◀ removed ──│                │        what it was told over r, and sends nothing more there
    │◀─────── done ───────│       │─────── done ───────▶│        both have: r is gone, and this side is unlocked
    │◀───────────────────── done ───────────────────────│        u has both: the exchange is done

Events that still come over r are passed on. Behind `done` nothing follows that came over r, so that from there on
nothing can cross a twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pleach.core.effects import Effect, LinkDown, Send, SetTimer
from pleach.core.messages import Activate, Begin, Done, Message, Node, Removed, TableEntries, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.contract import PART, note
from pleach.core.overlay.exchange.crossing import CrossingSeam, Ends
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NewLink, Rewiring, unpacked
from pleach.errors import ProtocolError


class LinkExchange(ABC):
    """A part (see `contract.Part`) but for what differs: each protocol says when to link and when to remove."""

    ends: Ends

    def __init__(self, context: BrokerContext, cycle: Cycle, _ordering: str) -> None:
        self._context = context
        self.cycle = cycle
        self.ends = self._fresh()
        self.seam: Reconfiguration = self._at_seam()

    def _fresh(self) -> Ends:
        return Ends()

    def _at_seam(self) -> CrossingSeam:
        return CrossingSeam(self.cycle, self.name, self.ends)

    @property
    def name(self) -> Node:
        return self._context.name

    @property
    def is_over(self) -> bool:
        return self.ends.is_over

    @property
    def old_link(self) -> OldLink:
        if not self.ends.is_removed:
            return OldLink.THERE
        return OldLink.GONE if self.ends.is_left else OldLink.LEFT

    @abstractmethod
    def begin(self, lock_seconds: float, /) -> Reaction: ...

    def handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Removed() if sender == self._over_old:
                return Reaction(self._left())
            case Done(origin=origin):
                return Reaction(self._done(origin))
        raise ProtocolError(self.name, sender, message, "it does not fit the state of the exchange")

    def due(self) -> Reaction:
        return Reaction(self._remove())

    def resume(self) -> Sequence[Effect]:
        is_waiting = self.ends.remove_after and not self.ends.is_removed
        return [SetTimer(PART, self.ends.remove_after)] if is_waiting else []

    def capture(self) -> bytes:
        return pack(self.ends)

    def restore(self, state: bytes) -> None:
        self.ends = unpack(state, type(self.ends))
        self.seam = self._at_seam()

    # The new link --------------------------------------------------------------------------------------------

    def _activate(self) -> list[Effect]:
        """At u: tell v, in front of all else, that it is to connect too."""
        return [Send(self.cycle.v, Activate(self.cycle.operation)), *self._connect()]

    def _connect(self) -> list[Effect]:
        """At an end of a: tell the far end all that it has to know, as any new neighbour."""
        self.ends.is_linked = True
        return [*self._context.answered(self._context.router.connect(self._over_new)), *self._pass_done()]

    def _tell_what_is_new(self, told: Sequence[TableEntries], *, is_settled: bool) -> list[Effect]:
        """At an end of a, which was suspended: tell the far end, which has `told`, what it should have instead."""
        router, far = self._context.router, self._over_new
        beyond = self.cycle.side(far)[1:]
        link = NewLink(sides.received(router, far), unpacked(told), beyond=beyond, is_same=True)
        return self._context.rewire(Rewiring(links={far: link}, parent=router.parent, settle=not is_settled))

    # The old link --------------------------------------------------------------------------------------------

    def _pass_begin(self) -> list[Effect]:
        """From u along the cycle to x, and over r to y; what these do about it is the protocol's."""
        following = {self.cycle.x: self.cycle.y, self.cycle.y: None}.get(self.name, self.cycle.towards_old(self.name))
        return [] if following is None else [Send(following, Begin(self.cycle.operation))]

    def _remove(self) -> list[Effect]:
        """At an end of r: act as if the far end had unsubscribed from all (S1 §4.4.1), and send it nothing more."""
        if self.ends.is_removed:
            return []
        self.ends.is_removed = True
        router, far = self._context.router, self._over_old
        asked = router.ask_also(far, self.cycle.way_around(self.name)) if self._knows_the_way else []
        gone = self._context.rewire(Rewiring(gone=(far,), parent=router.parent))
        noted = note(self.cycle, "the old link is removed here")
        return [noted, *asked, *gone, Send(far, Removed(self.cycle.operation)), *self._leave_if_removed()]

    def _remove_after(self, seconds: float) -> list[Effect]:
        self.ends.remove_after = seconds
        return [SetTimer(PART, seconds)]

    @property
    def _knows_the_way(self) -> bool:
        """Whether this end of r can be sure of a neighbour on the way around."""
        return self.cycle.way_around(self.name)[0] in self._context.router.neighbours

    def _left(self) -> list[Effect]:
        """The far end has forgotten this one, and would drop what it is told: tell it nothing until it is removed."""
        self.ends.is_left = True
        if not self.ends.is_removed:
            self._context.router.suspend([self._over_old])
        return self._leave_if_removed()

    def _leave_if_removed(self) -> list[Effect]:
        if not (self.ends.is_removed and self.ends.is_left):
            return []
        return [LinkDown(self._over_old), *self._done(self.name)]

    # The end -------------------------------------------------------------------------------------------------

    def _done(self, origin: Node) -> list[Effect]:
        """The end of r on this side is done; at u: or the other one is."""
        self.ends.done.append(origin)
        return self._pass_done()

    def _pass_done(self) -> list[Effect]:
        """Pass on what was heard of it; at v once a is linked too, so that u can rely on it."""
        cycle, ends = self.cycle, self.ends
        following = cycle.towards_new(self.name)
        if following is None and not ends.is_linked:
            return []
        if following is None and cycle.end_at_old(self.name) in ends.done and not ends.is_opened:
            ends.is_opened = True
            return [*self._open(), *self._pass_done()]
        if self.name == cycle.u:
            ends.is_over = len(ends.done) == 2
            return []
        ends.is_over = bool(ends.done)
        return [Send(following or cycle.u, Done(cycle.operation, origin)) for origin in ends.done]

    def _open(self) -> list[Effect]:
        """At an end of a: the tables of this side are those of the new tree."""
        return []

    # Parts ---------------------------------------------------------------------------------------------------

    @property
    def _over_new(self) -> Node:
        return self.cycle.across_new(self.name) or ""

    @property
    def _over_old(self) -> Node:
        return self.cycle.across_old(self.name) or ""
