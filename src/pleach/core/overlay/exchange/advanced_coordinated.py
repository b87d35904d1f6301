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

Corrections of what S1 prints (docs/protocols/advanced-coordinated.md says where that fails): what is relayed travels
along the cycle, hop by hop, and so is FIFO with what it orders, begin included; a separator says where it began, so
that neighbours of r and a are not taken for the far side; and no unlock is exchanged: a broker is finished when both
separators have passed it towards a, since nothing black can follow them. Tables follow decision 7: what changes during
the exchange is told over a as one difference at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum, auto

import msgspec

from pleach.core.effects import Effect, LinkDown, Send
from pleach.core.messages import (
    EVENTS_TO_BROKERS,
    Begin,
    EndOfRelay,
    Forward,
    Install,
    Layer,
    Mark,
    Marked,
    Message,
    Node,
    RelayRouting,
    RelayTables,
    Separator,
    TableEntries,
    Withdraw,
)
from pleach.core.overlay.exchange.contract import NOTHING, Input, Start, TablePart, note, table
from pleach.core.overlay.exchange.cycle import OF_NEW, OF_NONE, OF_OLD, Cycle, CycleRole
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Reaction, Reconfiguration, Verdict, stale
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.entries import Entry
from pleach.core.routing.renewal_relay import UNANSWERED
from pleach.core.routing.rewiring import NewLink, Rewiring, packed, unpacked


class OwnSide(StrEnum):
    """How far the separator of a broker's own side is."""

    BLACK = "black"  # it has not turned this broker gray
    GRAY = "gray"
    RETURNED = "gray, separator returned"  # it has come back from r: no black event of this side follows


class OtherSide(StrEnum):
    """How far the separator of the other side is, and what comes over r ahead of it."""

    COMING = "coming"
    RELAYING = "relaying"  # at an end of r: what comes over r is relayed
    ENDED = "relaying ended"  # at an end of a: nothing more is relayed
    PASSED = "passed"  # the separator has passed: no black event of the other side follows
    PASSED_EARLY = "passed before the end of relaying"  # at an end of a, only as S1 prints it


class SeparatorWay(Enum):
    """A separator, by its side and its way: the inputs that the table has for it."""

    RELAYED = auto()  # of the own side, on its way to a
    TO_OLD = auto()  # of the own side, from a to r
    TO_NEW = auto()  # of the own side, back from r
    OTHER = auto()  # of the other side


class ColourState(msgspec.Struct):
    """The state of one broker of the cycle."""

    own: OwnSide = OwnSide.BLACK
    other: OtherSide = OtherSide.COMING
    told_over_new: list[TableEntries] = []  # at an end of a: what the far side had of this one when r was suspended
    is_settled: bool = True  # no confirmation was outstanding on r then

    @property
    def other_passed(self) -> bool:
        return self.other in (OtherSide.PASSED, OtherSide.PASSED_EARLY)

    @property
    def is_clear(self) -> bool:
        """No black event comes to this broker any more."""
        return self.own is OwnSide.RETURNED and self.other_passed


class ColourSeam:
    """Events and routing messages on the cycle (S1 Algorithms 7 and 8)."""

    keeps_causal_order = True  # what waits at a waits in line

    def __init__(
        self, cycle: Cycle, name: Node, state: ColourState, ordering: str, *, has_advertisements: bool
    ) -> None:
        self._cycle, self._name, self._state = cycle, name, state
        self._ordering, self._has_advertisements = ordering, has_advertisements
        self._over_new, self._over_old = cycle.across_new(name), cycle.across_old(name)
        around = (cycle.towards_new(name), cycle.towards_old(name), self._over_new, self._over_old)
        self.peers = frozenset(node for node in around if node is not None)

    # Receiving (Algorithm 7) ---------------------------------------------------------------------------------

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if sender == self._over_new:
            return self._over_the_new_link(sender, message)
        is_relaying = self._state.other is OtherSide.RELAYING
        if sender == self._over_old and is_relaying and not _is_event(message):
            return self._relayed(message)
        return stale(sender, message)

    def _over_the_new_link(self, sender: Node, message: Passing) -> Verdict:
        """Routing messages wait for what is relayed. Where advertisements are used they do not overtake events either:

        an advertisement that is withdrawn takes the subscriptions with it by which events before it are routed.
        """
        is_ended = self._state.other in (OtherSide.ENDED, OtherSide.PASSED)
        queues = self._queues_events
        waits = queues if _is_event(message) else not is_ended or (self._has_advertisements and queues)
        return Hold() if waits else stale(sender, message)

    def _relayed(self, message: Passing) -> Verdict:
        if not isinstance(message, Install | Withdraw):
            return Drop("both ends ask again over the new link")
        if isinstance(message, Install):
            message = Install(message.layer, UNANSWERED, message.owner, message.filter)
        if self._over_new is not None:  # this broker is an end of r and of a
            return Pass(self._over_new, message)
        following = self._cycle.towards_new(self._name)
        assert following is not None
        return Drop("relayed", [Send(following, RelayRouting(self._cycle.operation, message))])

    @property
    def _queues_events(self) -> bool:
        """At an end of a: whether events from the other end wait (rules 6 and 7).

        With advertisements they wait at least until the subscriptions that those of the other side call for are here.
        """
        own_returned = self._state.own is OwnSide.RETURNED
        match self._ordering:
            case "none":
                return self._has_advertisements and not own_returned
            case "fifo":
                return not self._state.other_passed or (self._has_advertisements and not own_returned)
        return not self._state.is_clear

    @property
    def releasable(self) -> list[Node]:
        """The link a, at one of its ends, once what waits there may go on. What must wait still is held again."""
        is_ended = self._state.other in (OtherSide.ENDED, OtherSide.PASSED)
        return [self._over_new] if self._over_new is not None and (is_ended or not self._queues_events) else []

    # Sending (Algorithm 8) -----------------------------------------------------------------------------------

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        if not _is_event(cause):
            return sends
        is_gray = self._is_gray(source, cause)
        return [coloured for send in sends if (coloured := self._coloured(send, is_gray=is_gray)) is not None]

    def _is_gray(self, source: Node, cause: Passing) -> bool:
        """An event that came over a is gray; one that comes onto the cycle here has the colour of this broker."""
        if source == self._over_new:
            return True
        if source in self.peers:
            return isinstance(cause, Marked) and cause.operation == self._cycle.operation
        return self._state.own is not OwnSide.BLACK

    def _coloured(self, send: Send, *, is_gray: bool) -> Send | None:
        if not isinstance(send.message, Forward) or send.to not in self.peers:
            return send
        if send.to == self._over_new:
            return send if is_gray else None
        if send.to == self._over_old:
            return None if is_gray else send
        if not is_gray:
            return send
        return Send(send.to, Marked(self._cycle.operation, Mark.GRAY, self._name, send.message))


class AdvancedCoordinated(TablePart):
    """One broker's part (`contract.ExchangePart`)."""

    TRANSITIONS = table(
        (CycleRole.U, OtherSide.COMING, Start),
        (CycleRole.X, OwnSide.BLACK, Start, OwnSide.RETURNED),  # u = x: what is relayed is handled at once
        (CycleRole.X, OtherSide.COMING, Start, OtherSide.RELAYING),
        (CycleRole.HEAD, OtherSide.COMING, Begin),
        (OF_OLD, OtherSide.COMING, Begin, OtherSide.RELAYING),
        (OF_NEW | OF_NONE, OwnSide.BLACK, RelayTables),
        (CycleRole.U | CycleRole.HEAD, OtherSide.COMING, RelayRouting),  # x tells nothing over r before y has `Begin`
        (OF_NONE, OwnSide.BLACK, SeparatorWay.RELAYED),
        (OF_NEW, OwnSide.BLACK, SeparatorWay.RELAYED, OwnSide.GRAY),
        (OF_NONE, OwnSide.BLACK, SeparatorWay.TO_OLD, OwnSide.GRAY),
        (OF_OLD, OwnSide.BLACK, SeparatorWay.TO_OLD, OwnSide.RETURNED),
        (OF_NEW | OF_NONE, OwnSide.GRAY, SeparatorWay.TO_NEW, OwnSide.RETURNED),
        (OF_OLD, OtherSide.RELAYING, SeparatorWay.OTHER, OtherSide.PASSED),
        (OF_NONE, OtherSide.COMING, EndOfRelay),
        (OF_NEW, OtherSide.COMING, EndOfRelay, OtherSide.ENDED),
        (OF_NONE, OtherSide.COMING, SeparatorWay.OTHER, OtherSide.PASSED),
        (OF_NEW, OtherSide.ENDED, SeparatorWay.OTHER, OtherSide.PASSED),
    )
    State = ColourState
    state: ColourState
    seam: Reconfiguration

    def _at_seam(self) -> Reconfiguration:
        return self._colouring(ColourSeam)

    def _colouring(self, seam: type[ColourSeam]) -> ColourSeam:
        has_advertisements = self._context.router.config.advertisements
        return seam(self.cycle, self.name, self.state, self._ordering, has_advertisements=has_advertisements)

    def phases(self) -> set[tuple[CycleRole, StrEnum]]:
        return {(role, phase) for role in self.cycle.roles(self.name) for phase in (self.state.own, self.state.other)}

    @property
    def is_over(self) -> bool:
        return self.state.is_clear

    @property
    def old_link(self) -> OldLink:
        """Its separator is the last message of an end of r over it."""
        if self.state.own is not OwnSide.RETURNED:
            return OldLink.THERE
        return OldLink.GONE if self.state.other_passed else OldLink.LEFT

    def _input(self, sender: Node, message: Message) -> Input | None:
        cycle, over_old = self.cycle, self._over_old
        cause = self._passage(sender, message) if isinstance(message, Separator) else type(message)
        if cause is Begin:
            is_expected = sender == cycle.before(self.name)
        elif cause is SeparatorWay.TO_OLD:
            is_expected = sender == cycle.towards_new(self.name)
        else:
            is_expected = sender == (
                over_old if cause is SeparatorWay.OTHER and over_old else cycle.towards_old(self.name)
            )
        return cause if is_expected else None

    def _passage(self, sender: Node, message: Separator) -> SeparatorWay | None:
        if message.origin != self.cycle.end_at_old(self.name):
            is_other = message.origin in (self.cycle.x, self.cycle.y) and not message.is_relayed
            return SeparatorWay.OTHER if is_other else None
        if message.is_relayed:
            return SeparatorWay.RELAYED
        return SeparatorWay.TO_OLD if sender == self.cycle.towards_new(self.name) else SeparatorWay.TO_NEW

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Begin():
                return self._begun()
            case RelayTables():
                return self._relay_tables(message)
            case RelayRouting():
                return self._relay_routing(message)
            case Separator():
                return self._separator(sender, message)
            case EndOfRelay():
                return self._end_of_relay(message)
        raise AssertionError(message)  # a row that nothing handles

    # Begin (Algorithm 3) -------------------------------------------------------------------------------------

    def _begin(self, _lock_seconds: float) -> Reaction:
        return self._begun()

    def _begun(self) -> Reaction:
        """Along the cycle to x, and over r to y."""
        cycle = self.cycle
        begin = Begin(cycle.operation)
        if self.name == cycle.x:
            return Reaction([Send(cycle.y, begin), *self._relay_all()])
        if self.name == cycle.y:
            return Reaction(self._relay_all())
        return Reaction([Send(cycle.towards_old(self.name) or "", begin)])

    def _relay_all(self) -> list[Effect]:
        """At an end of r: from now on nothing is told over r, and what still comes is for the end of a."""
        router, far = self._context.router, self._over_old
        is_settled = router.is_settled([far])
        router.suspend([far])
        if self.state.other is OtherSide.COMING:
            self.state.other = OtherSide.RELAYING
        received, told = sides.received(router, far), sides.told(router, far)
        tables = RelayTables(self.cycle.operation, packed(received), packed(told), is_settled)
        separator = Separator(self.cycle.operation, self.name, is_relayed=True)
        return [*self._to_new(tables), *self._to_new(separator)]

    def _to_new(self, message: Message) -> list[Effect]:
        """Towards the end of a on this side, hop by hop; at that end it is handled at once."""
        following = self.cycle.towards_new(self.name)
        if following is not None:
            return [Send(following, message)]
        return list(self._react(self.name, message).effects)

    def _relay_tables(self, message: RelayTables) -> Reaction:
        if not self._over_new:
            return Reaction(self._to_new(message))
        self.state.told_over_new, self.state.is_settled = message.told, message.is_settled
        link = NewLink(unpacked(message.received), unpacked(message.told), is_suspended=True)
        parent = self._context.router.parent
        return Reaction(self._context.rewire(Rewiring(links={self._over_new: link}, parent=parent)))

    def _relay_routing(self, message: RelayRouting) -> Reaction:
        if not self._over_new:
            return Reaction(self._to_new(message))
        return Reaction(self._context.answered(self._context.router.handle(self._over_new, message.message)))

    # Separator (Algorithm 4) and end (Algorithm 5) -----------------------------------------------------------

    def _separator(self, sender: Node, message: Separator) -> Reaction:
        match self._passage(sender, message):
            case SeparatorWay.OTHER:
                return self._of_the_other_side(message)
            case SeparatorWay.RELAYED if not self._over_new:
                return Reaction(self._to_new(message))
            case SeparatorWay.RELAYED | SeparatorWay.TO_OLD:
                return self._turn_gray(message)
        return self._passed_back(message)

    def _turn_gray(self, message: Separator) -> Reaction:
        """This broker and all between it and a know the way over a."""
        self.state.own = OwnSide.GRAY
        self._doubt_what_was_told()
        separator = Separator(self.cycle.operation, message.origin)
        asked = self._ask_the_other_way()
        following = self.cycle.towards_old(self.name)
        if following is not None:
            return Reaction([note(self.cycle, "gray"), *asked, Send(following, separator)])
        stopped = self._stop_using_old()
        passed = self._passed_back(separator)
        effects = [note(self.cycle, "gray"), *asked, *stopped, Send(self._over_old, separator), *passed.effects]
        return Reaction(effects, passed.released)

    def _ask_the_other_way(self) -> list[Send]:
        """Requests that wait for confirmations over r are to be confirmed by the brokers there, over a."""
        awaited = self.cycle.towards_old(self.name) or self._over_old
        return self._context.router.ask_also(awaited, self.cycle.way_around(self.name))

    def _doubt_what_was_told(self) -> None:
        """What came over r was told towards a long ago. If a client of this side wants the same, nothing is told again,

        although v does not know of it yet. So such requests are confirmed all the way around. At an end of a, a itself
        is suspended, and requests wait for it anyway.
        """
        if not self._over_new:
            self._context.router.doubt(self.cycle.way_around(self.name))

    def _passed_back(self, message: Separator) -> Reaction:
        """The separator is on its way back from r: no black event of this side follows it."""
        self.state.own = OwnSide.RETURNED
        return self._go_on(message)

    def _of_the_other_side(self, message: Separator) -> Reaction:
        """It came over r, or along this side: no black event of the other side follows it."""
        has_begun = self.state.other is OtherSide.RELAYING
        self.state.other = self._passed()
        ended = self._end_relaying(has_begun=has_begun) if self._over_old else []
        going_on = self._go_on(message)
        return Reaction([*ended, *going_on.effects], going_on.released)

    def _passed(self) -> OtherSide:
        """The phase once the other side's separator has passed."""
        return OtherSide.PASSED

    def _end_relaying(self, *, has_begun: bool) -> list[Effect]:  # noqa: ARG002
        return self._to_new(EndOfRelay(self.cycle.operation))

    def _go_on(self, message: Separator) -> Reaction:
        """Pass a separator on towards a. After both of them the exchange is over at this broker."""
        following = self.cycle.towards_new(self.name)
        effects: list[Effect] = [] if following is None else [Send(following, message)]
        if self.state.is_clear:
            effects = [*self._leave_old(), *effects, *self._finish()]
        return Reaction(effects, self._releasable)

    @property
    def _releasable(self) -> list[Node]:
        return self._colouring(ColourSeam).releasable

    def _end_of_relay(self, message: EndOfRelay) -> Reaction:
        if not self._over_new:
            return Reaction(self._to_new(message))
        if self.state.other in (OtherSide.COMING, OtherSide.RELAYING):
            self.state.other = OtherSide.ENDED
        return NOTHING

    # Tables at the ends of both links --------------------------------------------------------------------------

    def _stop_using_old(self) -> list[Effect]:
        """At an end of r, when its side is gray: forget the subscriptions that led black events of this side over r.

        Advertisements stay until the other side is gray too: they call for the subscriptions by which black events of
        the other side are routed on this side.
        """
        router, far = self._context.router, self._over_old
        received = {**sides.received(router, far), Layer.SUBSCRIPTIONS: frozenset[Entry]()}
        link = NewLink(received, sides.told(router, far), is_same=True, is_suspended=True)
        return self._context.rewire(Rewiring(links={far: link}, parent=router.parent))

    def _leave_old(self) -> list[Effect]:
        """At an end of r: no broker uses it any more. Requests that waited for it have been asked the other way."""
        if not self._over_old:
            return []
        return self._context.rewire(Rewiring(gone=(self._over_old,), parent=self._context.router.parent))

    def _open_new(self) -> list[Effect]:
        """At an end of a: the tables on this side are those of the new tree; tell the far side what is new to it."""
        router, far = self._context.router, self._over_new
        if not far:
            return []
        told, beyond = unpacked(self.state.told_over_new), self.cycle.side(far)[1:]
        link = NewLink(sides.received(router, far), told, beyond=beyond, is_same=True)
        return self._context.rewire(Rewiring(links={far: link}, parent=router.parent, settle=not self.state.is_settled))

    # The end -------------------------------------------------------------------------------------------------

    def _finish(self) -> list[Effect]:
        """Both separators have passed: no message of the exchange follows them."""
        self._context.router.trust(self.cycle.towards_new(self.name) or "")
        return [*self._open_new(), *self._close_old()]

    def _close_old(self) -> list[Effect]:
        return [LinkDown(self._over_old)] if self._over_old else []


def _is_event(message: Passing) -> bool:
    return message.__class__ in EVENTS_TO_BROKERS
