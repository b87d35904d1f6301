"""Periodic rebuild that waits for evidence, for networks without bounds on message delays (decision 32).

                 Switch(x)                 table x is emptied, from the root down
    client ──▶ broker ──Whole(x)──▶ parent ──Whole(x)──▶ root      entries are sent again, from the leaves up
    root, π after its last round: the next round if the tree is whole; else Muster(x) to children that are not, every ρ

Rule 1: a broker is *whole* once every client that it had when it emptied table x has completed a renewal round that
        began after that, and every child is whole. On FIFO links all resulting entries precede Whole upwards and the
        next Switch downwards: wherever a table is emptied, the other one is complete.
Rule 2: with advertisements there are two *waves* in a round: first advertisements, then the subscriptions they gate.
Rule 3: for a client that is absent, or late when the root asks, its broker *vouches*: it copies the client's entries
        from the complete table. Brokers are waited for.
Rule 4: a round is never shorter than π, whatever the evidence, which may be damaged. Within the configured delays the
        proofs of the timed protocol hold (rebuild.py).
Rule 5: everything that is waited for is also asked for again: Muster makes damaged brokers switch, send their entries
        again, and report again that they are whole.
Rule 6: where two brokers have no parent, both ends of one link take the other for a child and wait for it. They detect
        it, since a Muster otherwise comes only from the parent. It is reported, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import (
    OPERATOR,
    Anew,
    Attached,
    Message,
    Muster,
    Node,
    Parity,
    Presence,
    Whole,
    pack,
    unpack,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction
from pleach.core.routing.policies import POLICIES
from pleach.core.stabilise.paced_twin import PacedTwin
from pleach.core.stabilise.rebuild import Rebuild, RebuildState
from pleach.errors import ProtocolError

FIRST_WAVE = 1


class Rivals(NamedTuple):
    """Two roots of one tree. `neighbour`: our neighbour towards the other root."""

    ours: Node
    theirs: Node
    neighbour: Node

    def __str__(self) -> str:
        return (
            f"{self.ours} and {self.theirs} are both roots, and no round ends: brokers from {self.theirs} "
            f"to {self.neighbour} need as `parent` the neighbour towards {self.ours}; a data directory keeps its parent"
        )


class PacedState(RebuildState, array_like=True):
    """`wave`: 0 in states of rebuild.py. All names sorted."""

    wave: int = 0
    is_overdue: bool = False  # root: the next round is due, and the tree is not whole
    awaited: dict[Node, None] = msgspec.field(default_factory=dict)  # clients without a renewal round in this round
    whole: dict[Node, None] = msgspec.field(default_factory=dict)  # children that are whole in this wave
    away: dict[Node, None] = msgspec.field(default_factory=dict)  # peers that cannot be reached


class RoundCounters(msgspec.Struct):
    """Since the broker was created."""

    rounds: int = 0
    missing: int = 0  # entries that a table lacked
    extra: int = 0  # entries that a table should not have had
    vouched: int = 0  # clients that the broker vouched for
    musters: int = 0  # received, or sent by the root, because a round was late
    last_round_at: float | None = None


class PacedRebuild(Rebuild):
    accepts = Rebuild.accepts | {Muster, Whole, Presence}

    def __init__(self, context: BrokerContext, period: float, salt: str = "") -> None:
        super().__init__(context, period, salt)
        self._wave = FIRST_WAVE
        self._is_overdue = False
        self._awaited: set[Node] = set()
        self._whole: set[Node] = set()
        self._away: set[Node] = set()
        self._now = 0.0
        self._heard_root: Node = ""
        self._foreign_roots: dict[Node, Node] = {}  # by the neighbour that sent their Muster in this round
        self.counters = RoundCounters()
        self._listen()

    def _listen(self) -> None:
        self._twin.on_round = self._has_renewed

    @property
    def _twin(self) -> PacedTwin:
        router = self._context.router
        assert isinstance(router, PacedTwin), "paced rebuild needs two tables"
        return router

    @property
    def away(self) -> Collection[Node]:
        return self._away

    @property
    def lapsed(self) -> int:
        """Entries that expired so far."""
        return self.counters.extra

    @property
    def rivals(self) -> Rivals | None:
        """Two roots that this broker lies between, once it knows both (rule 6); for operators."""
        if not self._foreign_roots or not self._root:
            return None
        neighbour = min(self._foreign_roots)
        return Rivals(self._root, self._foreign_roots[neighbour], neighbour)

    @property
    def _root(self) -> Node:
        """Empty: no Muster has named it yet."""
        return self._context.name if self._twin.parent is None else self._heard_root

    @property
    def _waves(self) -> int:
        config = self._twin.config
        return 2 if config.advertisements and not POLICIES[config.policy].floods else FIRST_WAVE

    @property
    def _children(self) -> list[Node]:
        return [neighbour for neighbour in sorted(self._twin.neighbours) if neighbour != self._twin.parent]

    @property
    def _is_whole(self) -> bool:
        sessions = self._context.sessions
        return self._whole.issuperset(self._children) and not any(client in sessions for client in self._awaited)

    # Messages ------------------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:
        self._now = now
        match message:
            case Presence(away, back):
                return Reaction(self._noted(sender, message, away, back))
            case Muster() | Whole() if sender not in self._twin.neighbours:
                raise ProtocolError(self._context.name, sender, message, "the sender is no neighbour")
            case Muster(root=root) if sender != self._twin.parent:
                if root:  # else forged by a fault
                    self._foreign_roots[sender] = root
                return Reaction()
            case Muster(parity, wave, root) if FIRST_WAVE <= wave <= self._waves:
                self._heard_root = root
                return Reaction(self._mustered(sender, parity, wave))
            case Muster():
                return Reaction()  # forged by a fault
            case Whole(parity, wave):
                return Reaction(self._heard_whole(sender, parity, wave))
            case _:
                return super().handle(sender, message, now=now)

    def _noted(self, sender: Node, message: Message, away: Sequence[Node], back: Sequence[Node]) -> list[Effect]:
        if sender != OPERATOR:
            raise ProtocolError(self._context.name, sender, message, "only the broker's own driver reports presence")
        self._away = (self._away | {*away}) - {*back}
        clients = [client for client in self._context.sessions.clients if client in back]
        greetings = [Send(client, Attached(self._twin.config.refresh)) for client in clients]  # it may differ
        late = self._awaited & {*away}
        return [*greetings, *(self._vouch(late) + self._proceed() if late else [])]

    def _mustered(self, sender: Node, parity: Parity, wave: int) -> Sequence[Effect]:
        if parity is not self._twin.building:
            return self._switch(parity)
        if wave == self._wave:  # asked again: a message is late, or state was damaged
            self.counters.musters += 1
            again: list[Send] = [Send(sender, Anew(parity)), *self._twin.again(parity, sender)]
        else:
            self._wave, again = wave, []
            self._whole.clear()
        return [*again, *self._muster()]

    def _heard_whole(self, sender: Node, parity: Parity, wave: int) -> Sequence[Effect]:
        is_of_now = (parity, wave) == (self._twin.building, self._wave)
        if not is_of_now or sender == self._twin.parent or sender in self._fenced[parity]:
            return ()
        self._whole.add(sender)
        told = self._proceed()
        is_due = self._is_overdue and self._twin.parent is None and self._is_complete
        return [*told, *(self._begin() if is_due else [])]

    def _has_renewed(self, client: Node) -> list[Send]:
        """A client has completed a renewal round. The root proceeds by its timer: here only sends are possible."""
        if client not in self._awaited:
            return []
        self._awaited.discard(client)
        return self._proceed()

    def _neighbour_switched(self, sender: Node, parity: Parity) -> list[Send]:
        """A child has emptied its table; if for the second time in this round, it lost the entries that we sent."""
        is_again = parity is self._twin.building and sender not in self._fenced[parity]
        self._fenced[parity].discard(sender)
        if not is_again:
            return []
        self._whole.discard(sender)
        return self._twin.again(parity, sender)

    # Rounds --------------------------------------------------------------------------------------------------

    @property
    def _is_complete(self) -> bool:
        """Seen by the root: the table is complete at all brokers."""
        return self._is_whole and self._wave >= self._waves

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        self._now = now
        if self._is_complete:
            return Reaction(self._begin())
        self._is_overdue = True
        self.counters.musters += 1
        self._switch_after = min(self._twin.config.refresh or self._period, self._period)
        mustered = self._muster()
        return Reaction([*mustered, *(self._begin() if self._is_complete else self._timers())])

    def _begin(self) -> list[Effect]:
        self._is_overdue = False
        self._switch_after = self._period
        return [*self._switch(self._twin.building.other), *self._timers()]

    def _switch(self, parity: Parity) -> list[Effect]:
        clients = {*self._context.sessions.clients}
        if parity is not self._twin.building:
            missing, extra = self._twin.differences(clients)
            self.counters.missing += missing
            self.counters.extra += extra
        self.counters.rounds += 1
        self.counters.last_round_at = self._now
        self._wave, self._awaited = FIRST_WAVE, clients
        self._whole.clear()
        self._foreign_roots.clear()
        return [*super()._switch(parity), *self._vouch(clients & self._away), *self._proceed()]

    def _muster(self) -> list[Send]:
        """Obtain what is missing: vouch for late clients, ask children."""
        vouched = self._vouch(set(self._awaited))
        return [*vouched, *self._ask_children(), *self._proceed()]

    def _ask_children(self) -> list[Send]:
        late = [child for child in self._children if child not in self._whole and child not in self._away]
        return [Send(child, Muster(self._twin.building, self._wave, self._root)) for child in late]

    def _proceed(self) -> list[Send]:
        """If this broker is whole: tell the parent; the root begins the next wave."""
        if not self._is_whole:
            return []
        parent = self._twin.parent
        if parent is not None:
            return [Send(parent, Whole(self._twin.building, self._wave))]
        if self._wave >= self._waves:
            return []
        self._wave += 1
        self._whole.clear()
        return [*self._ask_children(), *self._proceed()]

    def _vouch(self, clients: Iterable[Node]) -> list[Send]:
        sends: list[Send] = []
        for client in sorted(clients):
            self._awaited.discard(client)
            if client in self._context.sessions:
                self.counters.vouched += 1
                sends += self._context.answered(self._twin.carry_over(client))
        return sends

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> bytes:
        twin = self._twin
        fenced = [sorted(self._fenced[parity]) for parity in Parity]
        names = (dict.fromkeys(sorted(each)) for each in (self._awaited, self._whole, self._away))
        tables = twin.capture_tables()
        return pack(PacedState(self._switch_after, twin.building, fenced, tables, self._wave, self._is_overdue, *names))

    def restore(self, state: bytes) -> None:
        super().restore(state)
        restored = unpack(state, PacedState)
        self._wave = min(max(restored.wave, FIRST_WAVE), self._waves)
        self._is_overdue = restored.is_overdue
        self._awaited, self._away = {*restored.awaited}, {*restored.away}
        self._whole = {*restored.whole} & {*self._children}
        self._listen()
