"""Periodic rebuild (S1 §3.4): both tables of every broker are built anew in turn, from what clients say again.

    root      every π    Switch(x): table x is emptied; x is the other one than last time
    broker    Switch(x) from its neighbour towards the root: the same, and on to all neighbours
    clients   every ρ    renew all that they have; by the next round table x is complete

Rule 1: a round begins at a broker when the neighbour towards the root says so, whatever the broker thought.
Rule 2: what a table has was said to it in its round. So nothing counts that a neighbour says for table x before it
        has emptied its own table x too, and said so (*fence*). S1 has no fence: see decision 14.
Rule 3: on a tree a neighbour that emptied its table earlier is the one towards the root, and its Switch came first. On
        a cycle it may be another one, whose earlier words are gone: it hears of the switch here, and says all again.
Rule 4: the root's clock counts modulo π: a damaged one is late by one period at most. Nobody else needs a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pleach.core.effects import Effect, Observe, Observed, Send, SetTimer
from pleach.core.messages import (
    Along,
    Anew,
    Forward,
    InTable,
    Marked,
    Message,
    Node,
    Parity,
    RebuildMessage,
    Switch,
    pack,
    unpack,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Drop, Pass, Passing, Reaction, Reconfiguration, Verdict
from pleach.core.routing.snapshot import RouterState
from pleach.core.stabilise.twin import TwinRouter
from pleach.core.timing import phase_of, within
from pleach.errors import ProtocolError

SWITCH: Final = "rebuild:switch"
NOTHING = Reaction()


class RebuildState(msgspec.Struct, array_like=True):
    """`fenced`: by parity, neighbours that have not emptied their table in this round. `switch_after`: the timer."""

    switch_after: float
    building: Parity
    fenced: list[list[Node]]
    tables: list[tuple[Node, Parity, RouterState]]


class Rebuild:
    name = "rebuild"
    accepts: frozenset[type[Message]] = frozenset((Switch, Anew, InTable, Along))
    operation = ""  # it locks nobody

    def __init__(self, context: BrokerContext, period: float, salt: str = "") -> None:
        """`salt`: what sets the clock of one network apart from that of another with the same names."""
        self._context = context
        self._period = period
        self._switch_after = phase_of(f"{salt}/{context.name}/switch", period)
        self._fenced: dict[Parity, set[Node]] = {parity: set() for parity in Parity}
        self._trees = AlongTrees(context.name)

    @property
    def _router(self) -> TwinRouter:
        router = self._context.router
        assert isinstance(router, TwinRouter), "rebuilding needs two tables"
        return router

    @property
    def under_way(self) -> Reconfiguration | None:
        return self._trees if self._router.wiring.is_cyclic else None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        if sender not in self._router.neighbours:
            raise ProtocolError(self._context.name, sender, message, "the sender is no neighbour")
        return Reaction(self._answer(sender, message))  # type: ignore[arg-type]

    def _answer(self, sender: Node, message: RebuildMessage) -> Sequence[Effect]:
        match message:
            case InTable(_, parity):
                if sender in self._fenced[parity]:
                    return ()
                return self._context.answered(self._router.handle_in_table(sender, message))
            case Switch(parity) if sender == self._router.parent:
                return self._switch(parity)
            case Switch(parity):
                return self._is_with_us(sender, parity)
            case Anew(parity):
                self._fenced[parity].discard(sender)
                return ()
            case Along(tree, event):
                return self._carry(sender, tree, event)

    # Rounds --------------------------------------------------------------------------------------------------

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        self._switch_after = self._period
        return Reaction([*self._switch(self._router.building.other), *self._timers()])

    def _switch(self, parity: Parity) -> list[Effect]:
        router = self._router
        outcome = router.switch(parity)
        self._fenced[parity] = {neighbour for neighbour in router.neighbours if neighbour != router.parent}
        lapsed = self._context.sessions.lapse()
        seen = [Observe(Observed.STATE, detail=f"rebuild: {lapsed} ran out")] if lapsed else []
        told = [Send(neighbour, Switch(parity)) for neighbour in sorted(router.neighbours)]
        return [*told, *self._context.answered(outcome), *seen]

    def _is_with_us(self, sender: Node, parity: Parity) -> list[Send]:
        """A neighbour has emptied its table. On a cycle it may not have heard what it was told before that."""
        self._fenced[parity].discard(sender)
        router = self._router
        if not router.wiring.is_cyclic or router.building is not parity:
            return []
        return [Send(sender, Anew(parity)), *router.again(parity, sender)]

    # Events in cyclic networks -------------------------------------------------------------------------------

    def _carry(self, sender: Node, tree: Node, event: Forward) -> Sequence[Send]:
        """Reverse path forwarding: an event is taken from the neighbour towards its origin, and from no other."""
        branch = self._router.wiring.branches.get(tree)
        if branch is None or sender != branch.parent:
            return ()
        destinations = self._router.destinations_along(tree, event.event.attributes, sender)
        return along(tree, self._context.sessions.send_to(destinations, event))

    # State ---------------------------------------------------------------------------------------------------

    def _timers(self) -> list[Effect]:
        if self._router.parent is not None:
            return []
        return [SetTimer(SWITCH, within(self._switch_after, self._period), is_upkeep=True)]

    def resume(self) -> Sequence[Effect]:
        return self._timers()

    def capture(self) -> bytes:
        router = self._router
        fenced = [sorted(self._fenced[parity]) for parity in Parity]
        return pack(RebuildState(self._switch_after, router.building, fenced, router.capture_tables()))

    def restore(self, state: bytes) -> None:
        """Nothing that is restored is trusted: who is unknown here is not fenced, and what waits for nobody goes."""
        restored, router = unpack(state, RebuildState), self._router
        self._switch_after = restored.switch_after
        self._fenced = {p: {*fenced} & {*router.neighbours} for p, fenced in zip(Parity, restored.fenced, strict=True)}
        router.building = restored.building
        router.restore_tables(restored.tables)
        router.mend(self._context.sessions.clients)


class AlongTrees:
    """At the seam of a cyclic network: what clients publish here sets out down this broker's tree."""

    keeps_causal_order = False
    peers: frozenset[Node] = frozenset()

    def __init__(self, tree: Node) -> None:
        self._tree = tree

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if isinstance(message, Forward | Marked):
            return Drop("here events come along a tree")
        return Pass(sender, message)

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:  # noqa: ARG002
        return along(self._tree, sends)


def along(tree: Node, sends: Sequence[Send]) -> list[Send]:
    return [Send(s.to, Along(tree, s.message)) if isinstance(s.message, Forward) else s for s in sends]
