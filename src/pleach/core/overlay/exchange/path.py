"""The reconfiguration path (S2 §4; docs/protocols/path.md): one message round the cycle, and no change outside it.

    u          …          x ──r── y          …          v
    │◀── reconfigure … ───│                             │        head path: P_add now comes from the next broker,
    │ ── reconfigured … ─▶│                             │        P_del from the one before goes
    │ ──────── activate, subscriptions, reconfigure ──▶ │        the new link
    │                     │       │◀ … ─ reconfigure ───│        tail path: behind the subscriptions
    │                     │    removes                  │        these unsubscriptions stay on the tail path
    │◀─────── done ───────│       │─────── done ───────▶│        v tells u what is new since P_add (reconciliation)

S2 §4.3.2, in terms of our tables: `add` changes both ends of a link of the head path alike, and no subscription is sent
there. The broker before keeps what the next one tells it until that acknowledges the message. Then both know what the
next one had told when the message came, T, and take reduce(T ∪ P_add) for told. Three deviations: subscriptions towards
the new link that the change of tables uncovers travel with P_del; v withdraws what P_add had too much when it tells
what is new, not before; and what y still sends over r is passed on, where in S2 r is broken from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import (
    Activate,
    Begin,
    Done,
    Install,
    Layer,
    Message,
    Node,
    Reconfigure,
    Reconfigured,
    Removed,
    Settle,
    TableEntries,
    Withdraw,
)
from pleach.core.overlay.exchange.contract import Start, table
from pleach.core.overlay.exchange.crossing import CrossingSeam, Ends, NewEnd, OldEnd, PassingPhase
from pleach.core.overlay.exchange.cycle import CycleRole
from pleach.core.overlay.exchange.part import DONE_AT_NEW, LinkExchange
from pleach.core.overlay.seam import Drop, Passing, Reaction, Verdict
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.entries import Entry
from pleach.core.routing.rewiring import NO_TABLES, NewLink, Rewiring, Tables, packed, unpacked


class PathEnds(Ends):
    add: list[TableEntries] = msgspec.field(default_factory=list)  # P_add
    is_settled: bool = True  # no confirmation was outstanding on r when P_add was taken
    # While AWAITING: what the next broker had told when the message was sent, and what it has told since.
    had: list[TableEntries] = msgspec.field(default_factory=list)
    late: list[Install | Withdraw] = msgspec.field(default_factory=list)


class PathCrossing(CrossingSeam):
    state: PathEnds

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if self.state.between is PassingPhase.AWAITING and sender == self.cycle.towards_new(self.name):
            if isinstance(message, Install | Withdraw):
                self.state.late.append(message)
                return Drop("kept until the sender acknowledges")
            if isinstance(message, Settle):
                return Drop("the sender will ask again")
        return super().arriving(sender, message)


class Path(LinkExchange):
    TRANSITIONS = table(
        (CycleRole.U, NewEnd.CLOSED, Start, NewEnd.CLOSED, NewEnd.LINKED),
        (CycleRole.X, OldEnd.IN_USE, Start, OldEnd.REMOVED),  # u = x
        (CycleRole.HEAD, PassingPhase.LOCKED, Begin, PassingPhase.BEGUN),
        (CycleRole.X, OldEnd.IN_USE, Begin, OldEnd.REMOVED),
        (CycleRole.X, PassingPhase.LOCKED, Begin, PassingPhase.AWAITING),
        (CycleRole.HEAD, PassingPhase.BEGUN, Reconfigure, PassingPhase.AWAITING),
        (CycleRole.HEAD | CycleRole.X, PassingPhase.AWAITING, Reconfigured, PassingPhase.RECONFIGURED),
        (CycleRole.U, NewEnd.CLOSED, Reconfigure, NewEnd.LINKED),
        (CycleRole.V, NewEnd.CLOSED, Activate, NewEnd.LINKED),
        (CycleRole.V, NewEnd.LINKED, Reconfigure, NewEnd.LINKED, NewEnd.OPEN),
        (CycleRole.TAIL, PassingPhase.LOCKED, Reconfigure, PassingPhase.BEGUN),
        (CycleRole.Y, OldEnd.IN_USE, Reconfigure, OldEnd.REMOVED),
        (CycleRole.Y, OldEnd.IN_USE, Removed, OldEnd.LEFT_BY_FAR),
        (CycleRole.Y, OldEnd.LEFT_BY_FAR, Reconfigure, OldEnd.GONE),
        (CycleRole.X | CycleRole.Y, OldEnd.REMOVED, Removed, OldEnd.GONE),
        (CycleRole.HEAD, PassingPhase.AWAITING, Done),
        (CycleRole.HEAD, PassingPhase.RECONFIGURED, Done),
        (CycleRole.TAIL, PassingPhase.BEGUN, Done),
        beside=DONE_AT_NEW,
    )
    State = PathEnds
    Seam = PathCrossing
    state: PathEnds

    def phases(self) -> set[tuple[CycleRole, StrEnum]]:
        """x awaits an acknowledgement as the brokers between do, unless it is u."""
        is_awaiting_too = self.cycle.roles(self.name) is CycleRole.X
        return super().phases() | ({(CycleRole.X, self.state.between)} if is_awaiting_too else set())

    def _begun(self) -> Reaction:
        return Reaction(self._start() if self.name == self.cycle.x else self._pass_begin())

    def _react(self, sender: Node, message: Message) -> Reaction:
        match message:
            case Reconfigure() if self.cycle.end_at_new(self.name) == self.cycle.u:
                return Reaction(self._on_head(sender, message))
            case Reconfigure():
                return Reaction(self._on_tail(message))
            case Reconfigured():
                return Reaction(self._acknowledged())
            case Activate(told=told, is_settled=is_settled):
                return self._activated(told, is_settled=is_settled)
        return super()._react(sender, message)

    # The head path -------------------------------------------------------------------------------------------

    def _start(self) -> list[Effect]:
        """At x, the initiator: events that went over r go along the path from now on."""
        router, y = self._context.router, self.cycle.y
        self.state.old = OldEnd.REMOVED
        add, is_settled = packed(sides.received(router, y)), router.is_settled([y])
        message = Reconfigure(self.cycle.operation, add, [], is_settled)
        removed = Send(y, Removed(self.cycle.operation))
        return [removed, *self._reconfigure(message, gone=(y,))]

    def _on_head(self, before: Node, message: Reconfigure) -> list[Effect]:
        """The broker before takes P_add for told by this one."""
        router = self._context.router
        told = self._expected(sides.told(router, before), unpacked(message.add))
        link = NewLink(sides.received(router, before), told)
        acknowledged = Send(before, Reconfigured(self.cycle.operation))
        return [acknowledged, *self._reconfigure(message, {before: link})]

    def _reconfigure(
        self, message: Reconfigure, links: dict[Node, NewLink] | None = None, gone: tuple[Node, ...] = ()
    ) -> list[Effect]:
        """Put P_add on the link to the next broker, then take over what the one before has told."""
        router = self._context.router
        following, link = self._next(unpacked(message.add))
        self.state.add = message.add
        links = {**(links or {}), following: link}
        effects = self._context.rewire(Rewiring(gone=gone, links=links, parent=router.parent))
        for change in message.changes:
            before = self.cycle.towards_old(self.name) or ""
            effects += self._context.answered(router.handle(before, change))
        if following == self.cycle.v:  # only now: what is to go would go over a, and further, before it is withdrawn
            effects += self._tell_what_is_new([], is_settled=True)
        return self._sent_on(following, message, effects)

    def _next(self, add: dict[Layer, frozenset[Entry]]) -> tuple[Node, NewLink]:
        router, state = self._context.router, self.state
        following = self.cycle.towards_new(self.name)
        if following is None:
            state.new = NewEnd.LINKED
            return self.cycle.v, NewLink(add, NO_TABLES, is_suspended=True)
        received = sides.received(router, following)
        state.between, state.had = PassingPhase.AWAITING, packed(received)
        told, beyond = sides.told(router, following), self.cycle.way_around(self.name)[1:]
        return following, NewLink(sides.with_all(received, add), told, beyond=beyond, is_same=True)

    def _sent_on(self, following: Node, message: Reconfigure, effects: Sequence[Effect]) -> list[Effect]:
        """On the head path what this broker tells the next one travels with the message; over a, before it."""
        operation = self.cycle.operation
        if following == self.cycle.v:
            activate = Send(following, Activate(operation, message.add, message.is_settled))
            return [activate, *effects, Send(following, Reconfigure(operation))]
        changes: list[Install | Withdraw | Settle] = []
        others: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(to=to, message=Install() | Withdraw() | Settle() as change) if to == following:
                    changes.append(change)
                case _:
                    others.append(effect)
        return [Send(following, Reconfigure(operation, message.add, changes, message.is_settled)), *others]

    def _acknowledged(self) -> list[Effect]:
        """The next broker has the message: what it told before counts as told before P_add was added."""
        router, state, following = self._context.router, self.state, self.cycle.towards_new(self.name) or ""
        received = self._expected(_with_late(unpacked(state.had), state.late), unpacked(state.add))
        state.between, state.had, state.late = PassingPhase.RECONFIGURED, [], []
        beyond = self.cycle.way_around(self.name)[1:]
        link = NewLink(received, sides.told(router, following), beyond=beyond, is_same=True)
        return [*self._context.rewire(Rewiring(links={following: link}, parent=router.parent)), *self._pass_done()]

    def _expected(self, told: Tables, add: Tables) -> dict[Layer, frozenset[Entry]]:
        """What both ends of a link take for told over it."""
        union = sides.with_all(told, add)
        return {layer: self._context.router.reduced(union[layer]) for layer in Layer}

    # The new link, and the tail path -------------------------------------------------------------------------

    def _activated(self, told: list[TableEntries], *, is_settled: bool) -> Reaction:
        """At v. It tells nothing over a yet: its table has what came over r, which is to go."""
        state, u = self.state, self.cycle.u
        state.add, state.is_settled, state.new = told, is_settled, NewEnd.LINKED
        link = NewLink(NO_TABLES, unpacked(told), is_suspended=True)
        linked = self._context.rewire(Rewiring(links={u: link}, parent=self._context.router.parent))
        return Reaction(linked, released=[u])

    def _on_tail(self, message: Reconfigure) -> list[Effect]:
        if self.name == self.cycle.y:
            return self._remove()
        self.state.between = PassingPhase.BEGUN
        following = self.cycle.towards_old(self.name) or ""
        asked = self._context.router.ask_also(following, self.cycle.way_around(self.name))
        return [*asked, Send(following, message)]

    # The end -------------------------------------------------------------------------------------------------

    @property
    def _passes_done(self) -> bool:
        return self.state.between is not PassingPhase.AWAITING and super()._passes_done

    def _open(self) -> list[Effect]:
        """At v, reconciliation: what P_add lacks, or has too much."""
        if self.name == self.cycle.u:
            return []
        return self._tell_what_is_new(self.state.add, is_settled=self.state.is_settled)


def _with_late(had: dict[Layer, frozenset[Entry]], late: Sequence[Install | Withdraw]) -> dict[Layer, frozenset[Entry]]:
    told = {layer: {*entries} for layer, entries in had.items()}
    for message in late:
        entry = Entry(message.owner, message.filter)
        if isinstance(message, Install):
            told[message.layer].add(entry)
        else:
            told[message.layer].discard(entry)
    return {layer: frozenset(entries) for layer, entries in told.items()}
