"""What the protocols without colours share (S1 §4.4.1, S2): how routing begins to use a, and ceases to use r.

    u          …          x ──r── y          …          v
    │                     │── removed ▶│                │        each end of r, when its protocol says so: it forgets
    │                     │◀ removed ──│                │        what it was told over r, and sends nothing more there
    │◀─────── done ───────│       │─────── done ───────▶│        both have: r is gone, and this side is unlocked
    │◀───────────────────── done ───────────────────────│        u has both: the exchange is done

Events that still come over r are passed on. No message that came over r follows `done` on any link, so that nothing can
cross a twice afterwards. `Done` ends the exchange at a broker; at u the second one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from pleach.core.effects import Effect, LinkDown, Send, SetTimer
from pleach.core.messages import (
    Activate,
    Begin,
    Begun,
    Done,
    Flush,
    Message,
    Node,
    Reconfigure,
    RelayTables,
    Removed,
    TableEntries,
)
from pleach.core.overlay.exchange.contract import PART, Input, TablePart, TimerDue, note, table
from pleach.core.overlay.exchange.crossing import (
    LEFT_BY_FAR,
    LINKED,
    WAITING,
    CrossingSeam,
    Ends,
    NewEnd,
    OldEnd,
    PassingPhase,
)
from pleach.core.overlay.exchange.cycle import OF_NEW, OF_OLD, CycleRole
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NewLink, Rewiring, unpacked

DELAY_SECONDS = 0.25  # before r is removed, where a protocol waits: subscriptions pass ten links of 25 ms in it

# Rows that several protocols have.
DONE_AT_NEW = table(
    (CycleRole.U, NewEnd.LINKED, Done, NewEnd.LINKED, NewEnd.OPEN),
    (CycleRole.U, NewEnd.OPEN, Done),
    (CycleRole.V, NewEnd.LINKED, Done, NewEnd.OPEN),
)
REMOVAL_AFTER_DELAY = table(
    (OF_OLD, OldEnd.TIMED, TimerDue, OldEnd.REMOVED),
    (OF_OLD, OldEnd.TIMED, Removed, OldEnd.TIMED_LEFT_BY_FAR),
    (OF_OLD, OldEnd.TIMED_LEFT_BY_FAR, TimerDue, OldEnd.GONE),
    (OF_OLD, OldEnd.REMOVED, Removed, OldEnd.GONE),
)


class LinkExchange(TablePart):
    """A part (`contract.ExchangePart`) without what differs: each protocol says when to link and when to remove."""

    State = Ends
    Seam: ClassVar[type[CrossingSeam]] = CrossingSeam
    state: Ends

    def _at_seam(self) -> CrossingSeam:
        return self.Seam(self.cycle, self.name, self.state)

    def phases(self) -> set[tuple[CycleRole, StrEnum]]:
        state = self.state
        return {
            (role, state.new if role in OF_NEW else state.old if role in OF_OLD else state.between)
            for role in self.cycle.roles(self.name)
        }

    @property
    def is_over(self) -> bool:
        needed = 2 if self.name == self.cycle.u else 1
        return len(self.state.done) >= needed and self._passes_done

    @property
    def old_link(self) -> OldLink:
        return {OldEnd.REMOVED: OldLink.LEFT, OldEnd.GONE: OldLink.GONE}.get(self.state.old, OldLink.THERE)

    def _input(self, sender: Node, message: Message) -> Input | None:
        cycle, own = self.cycle, self.cycle.end_at_old(self.name)
        match message:
            case Flush():
                return Flush  # it goes through the whole tree of a side
            case Done(origin=origin) if origin in self.state.done or origin not in (own, self._end_beyond_new):
                return None
            case Begin():
                expected: Node | None = cycle.before(self.name)
            case Begun():
                expected = cycle.after(self.name)
            case Removed():
                expected = self._over_old
            case RelayTables():
                expected = cycle.towards_old(self.name)
            case Reconfigure() if own == cycle.x:
                expected = cycle.towards_old(self.name)
            case Done(origin=origin) if origin == own:
                expected = cycle.towards_old(self.name)
            case _:
                expected = cycle.towards_new(self.name) or self._over_new
        return type(message) if sender == expected else None

    @property
    def _end_beyond_new(self) -> Node:
        """At u: the end of r from which `Done` comes over a."""
        return self.cycle.y if self.name == self.cycle.u else ""

    def _begin(self, _lock_seconds: float) -> Reaction:
        return self._begun()

    def _begun(self) -> Reaction:
        """At u, and where `Begin` comes."""
        return Reaction(self._pass_begin())

    def _react(self, sender: Node, message: Message) -> Reaction:  # noqa: ARG002
        match message:
            case Begin():
                return self._begun()
            case Activate():
                return Reaction(self._connect())
            case Removed():
                return Reaction(self._left())
            case Done(origin=origin):
                return Reaction(self._done(origin))
        raise AssertionError(message)  # a row that nothing handles

    def _due(self) -> Reaction:
        return Reaction(self._remove())

    def resume(self) -> Sequence[Effect]:
        return [SetTimer(PART, DELAY_SECONDS)] if self.state.old in WAITING else []

    # The new link --------------------------------------------------------------------------------------------

    def _activate(self) -> list[Effect]:
        """At u: tell v, ahead of everything else, that it is to connect too."""
        return [Send(self.cycle.v, Activate(self.cycle.operation)), *self._connect()]

    def _connect(self) -> list[Effect]:
        """At an end of a: tell the far end all that it has to know, as any new neighbour."""
        self.state.new = NewEnd.LINKED
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
        self.state.between = PassingPhase.BEGUN
        following = {self.cycle.x: self.cycle.y, self.cycle.y: None}.get(self.name, self.cycle.towards_old(self.name))
        return [] if following is None else [Send(following, Begin(self.cycle.operation))]

    def _remove(self) -> list[Effect]:
        """At an end of r: act as if the far end had unsubscribed from all (S1 §4.4.1), and send it nothing more."""
        is_left = self.state.old in LEFT_BY_FAR
        self.state.old = OldEnd.REMOVED
        router, far = self._context.router, self._over_old
        asked = router.ask_also(far, self.cycle.way_around(self.name)) if self._knows_the_way else []
        gone = self._context.rewire(Rewiring(gone=(far,), parent=router.parent))
        noted = note(self.cycle, "the old link is removed here")
        removed = [noted, *asked, *gone, Send(far, Removed(self.cycle.operation))]
        return [*removed, *(self._leave() if is_left else [])]

    def _remove_later(self) -> list[Effect]:
        self.state.old = OldEnd.TIMED
        return [SetTimer(PART, DELAY_SECONDS)]

    @property
    def _knows_the_way(self) -> bool:
        """Whether the next broker on the way around is a neighbour already."""
        return self.cycle.way_around(self.name)[0] in self._context.router.neighbours

    def _left(self) -> list[Effect]:
        """The far end has forgotten this one, and would drop what it is told: tell it nothing until r is removed."""
        if self.state.old is OldEnd.REMOVED:
            return self._leave()
        self.state.old = OldEnd.TIMED_LEFT_BY_FAR if self.state.old is OldEnd.TIMED else OldEnd.LEFT_BY_FAR
        self._context.router.suspend([self._over_old])
        return []

    def _leave(self) -> list[Effect]:
        self.state.old = OldEnd.GONE
        return [LinkDown(self._over_old), *self._done(self.name)]

    # The end -------------------------------------------------------------------------------------------------

    def _done(self, origin: Node) -> list[Effect]:
        """r is gone at its end on this side; at u: or at the other one."""
        self.state.done.append(origin)
        return self._pass_done()

    @property
    def _passes_done(self) -> bool:
        """At an end of a: once a is linked, so that u can rely on it."""
        return self.cycle.towards_new(self.name) is not None or self.state.new in LINKED

    def _pass_done(self) -> list[Effect]:
        """Pass on where r is gone, as far as this broker may."""
        cycle, state = self.cycle, self.state
        if not self._passes_done:
            return []
        if self._over_new and cycle.end_at_old(self.name) in state.done and state.new is not NewEnd.OPEN:
            state.new = NewEnd.OPEN
            return [*self._open(), *self._pass_done()]
        if self.name == cycle.u:
            return []
        following = cycle.towards_new(self.name) or cycle.u
        return [Send(following, Done(cycle.operation, origin)) for origin in state.done]

    def _open(self) -> list[Effect]:
        """At an end of a: the tables of this side are those of the new tree."""
        return []
