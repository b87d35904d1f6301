"""Periodic rebuild that waits for evidence: for networks whose messages may take any time (live/), decision 32.

                 Switch(x)                 table x is emptied, from the root down
    client ──▶ broker ──Whole(x)──▶ parent ──Whole(x)──▶ root      all is said again, from the leaves up
    root, π after its last round: the next one if all is whole; else Muster(x) to those who have not said so, every ρ

Rule 1: a broker is *whole* once every client that it had when it emptied table x has said all again, in a round of
        renewals that began after that, and every child is whole. On FIFO links all that follows from it stands before
        Whole upwards, and before the next Switch downwards: wherever a table is emptied, the other one is complete.
Rule 2: with advertisements this is done twice in a round (*waves*): first they come everywhere, then what they let
        through.
Rule 3: for a client that is away, or late when the root asks, its broker vouches: it takes over what the complete
        table has. Brokers are waited for.
Rule 4: a round is never shorter than π, whatever evidence says: that might be damaged. Within the delays that are
        stated, what is proved of the timed protocol holds (rebuild.py).
Rule 5: nothing is waited for that is not asked for again: Muster has damaged brokers switch, say all again, and say
        again that they are whole.
Rule 6: where two brokers name no parent, there is one link whose ends each take the other for a child, and wait for it
        for ever. They hear of it: nobody else is mustered by one who is not its parent. Nothing is done but to say so.
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
    """Two roots of one tree. `neighbour`: the one that follows the other root."""

    ours: Node
    theirs: Node
    neighbour: Node

    def __str__(self) -> str:
        return (
            f"{self.ours} and {self.theirs} both are roots, and no round comes to its end: brokers from {self.theirs} "
            f"to {self.neighbour} need as `parent` the neighbour towards {self.ours}; a data directory keeps its own"
        )


class PacedState(RebuildState, array_like=True):
    """`wave`: 0 where rounds go by time alone. All names sorted."""

    wave: int = 0
    is_overdue: bool = False  # the root: it is time for the next round, and not all is whole
    awaited: dict[Node, None] = msgspec.field(
        default_factory=dict
    )  # clients that have not said all again in this round
    whole: dict[Node, None] = msgspec.field(default_factory=dict)  # children that are whole, in this wave
    away: dict[Node, None] = msgspec.field(default_factory=dict)  # peers that cannot be reached


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
        self._foreign_roots: dict[Node, Node] = {}  # by the neighbour that they mustered us by, in this round
        self.rounds = 0  # so far, as all that follows
        self.missing, self.extra = 0, 0  # entries that a table lacked, or should not have had
        self.vouched = 0  # clients that a broker spoke for
        self.musters = 0  # that it heard, or sent as the root, since a round took too long
        self.last_round_at: float | None = None
        self._listen()

    def _listen(self) -> None:
        self._twin.on_round = self._has_renewed

    @property
    def _twin(self) -> PacedTwin:
        router = self._context.router
        assert isinstance(router, PacedTwin), "evidence is kept beside two tables"
        return router

    @property
    def away(self) -> Collection[Node]:
        return self._away

    @property
    def lapsed(self) -> int:
        """Entries that went, so far, since nobody had said them again."""
        return self.extra

    @property
    def rivals(self) -> Rivals | None:
        """Two roots that this broker stands between, once it knows both (rule 6): for people, no state."""
        if not self._foreign_roots or not self._root:
            return None
        neighbour = min(self._foreign_roots)
        return Rivals(self._root, self._foreign_roots[neighbour], neighbour)

    @property
    def _root(self) -> Node:
        """Empty: it has not mustered us yet."""
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
                if root:  # else it was made up by a fault
                    self._foreign_roots[sender] = root
                return Reaction()
            case Muster(parity, wave, root) if FIRST_WAVE <= wave <= self._waves:
                self._heard_root = root
                return Reaction(self._mustered(sender, parity, wave))
            case Muster():
                return Reaction()  # made up by a fault
            case Whole(parity, wave):
                return Reaction(self._heard_whole(sender, parity, wave))
            case _:
                return super().handle(sender, message, now=now)

    def _noted(self, sender: Node, message: Message, away: Sequence[Node], back: Sequence[Node]) -> list[Effect]:
        if sender != OPERATOR:
            raise ProtocolError(self._context.name, sender, message, "only its own driver tells a broker who is there")
        self._away = (self._away | {*away}) - {*back}
        clients = [client for client in self._context.sessions.clients if client in back]
        greetings = [Send(client, Attached(self._twin.config.refresh)) for client in clients]  # it may have changed
        late = self._awaited & {*away}
        return [*greetings, *(self._vouch(late) + self._proceed() if late else [])]

    def _mustered(self, sender: Node, parity: Parity, wave: int) -> Sequence[Effect]:
        if parity is not self._twin.building:
            return self._switch(parity)
        if wave == self._wave:  # it was said before: something is late, or was damaged
            self.musters += 1
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
        """A client has said all again. The root goes on by its timer: here only messages can be sent."""
        if client not in self._awaited:
            return []
        self._awaited.discard(client)
        return self._proceed()

    def _is_with_us(self, sender: Node, parity: Parity) -> list[Send]:
        """A child has emptied its table. If it has done so before in this round it has forgotten what it was told."""
        is_again = parity is self._twin.building and sender not in self._fenced[parity]
        self._fenced[parity].discard(sender)
        if not is_again:
            return []
        self._whole.discard(sender)
        return self._twin.again(parity, sender)

    # Rounds --------------------------------------------------------------------------------------------------

    @property
    def _is_complete(self) -> bool:
        """As the root sees it: the table is, everywhere."""
        return self._is_whole and self._wave >= self._waves

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        self._now = now
        if self._is_complete:
            return Reaction(self._begin())
        self._is_overdue = True
        self.musters += 1
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
            self.missing, self.extra = self.missing + missing, self.extra + extra
        self.rounds += 1
        self.last_round_at = self._now
        self._wave, self._awaited = FIRST_WAVE, clients
        self._whole.clear()
        self._foreign_roots.clear()
        return [*super()._switch(parity), *self._vouch(clients & self._away), *self._proceed()]

    def _muster(self) -> list[Send]:
        """Have all that is missing come: clients that are late are spoken for, children are asked."""
        vouched = self._vouch(set(self._awaited))
        return [*vouched, *self._ask_children(), *self._proceed()]

    def _ask_children(self) -> list[Send]:
        late = [child for child in self._children if child not in self._whole and child not in self._away]
        return [Send(child, Muster(self._twin.building, self._wave, self._root)) for child in late]

    def _proceed(self) -> list[Send]:
        """If all is whole here and below: tell the parent; the root has the next wave begin."""
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
                self.vouched += 1
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
