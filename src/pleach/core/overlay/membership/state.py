"""One change of membership at one of its two brokers."""

from __future__ import annotations

from typing import Final

import msgspec

from pleach.core.effects import Observe, phase_seen
from pleach.core.events.event import EventId
from pleach.core.messages import ClientLeft, Farewell, Layer, Message, Node, Redirect, Said
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.transitions import TRANSITIONS, MembershipPhase, MembershipRole, Speaker
from pleach.core.overlay.retries import Retries

RETRY: Final = "membership:retry:"


class Changing(msgspec.Struct):
    """`partner`: the other broker. `absent`: as in `RequestRemove`.

    `clients`: those on their way, and whether each has been told, since it last lost its memory, where to go.
    """

    operation: str
    role: MembershipRole = msgspec.field(name="part")
    partner: Node
    phase: MembershipPhase = MembershipPhase.IDLE
    clients: dict[Node, bool | None] = {}  # None: as written by versions that did not note it
    partner_address: str = ""  # where the partner listens for clients
    partner_life: int = 0  # which knows them
    absent: list[Node] = []
    said: list[Said] = []  # at b: passed on since the handover, without events; a may forget it
    waiting: dict[Node, list[tuple[Layer, str]]] = {}  # at b: what clients waited for then
    passed_on: dict[Node, list[EventId]] = {}  # at b, HANDED: events of its clients, which a confirms to them

    def speaker(self, sender: Node) -> Speaker:
        if sender == self.partner:
            return Speaker.PARTNER
        return Speaker.CLIENT if sender in self.clients else Speaker.OTHER

    def why_not(self, sender: Node, message: Message) -> str:
        """Why a message does not fit; empty where it does."""
        if (self.role, self.phase, type(message), self.speaker(sender)) not in TRANSITIONS:
            return f"role {self.role.name}, phase {self.phase.name}, of an operation with {self.partner}"
        if not isinstance(message, Said | Farewell) and message.operation != self.operation:  # type: ignore[attr-defined]
            return f"operation {self.operation} is under way here"
        if isinstance(message, ClientLeft) and message.client not in self.clients:
            return f"{message.client} is not on its way here"
        return ""

    def redirect(self) -> Redirect:
        return Redirect(self.partner, self.partner_address, self.partner_life)

    def note(self) -> Observe:
        return phase_seen("membership", self.operation, f"{self.role.name.lower()} {self.phase.name.lower()}")


class MembershipState(msgspec.Struct):
    change: Changing | None = None
    attempts: int = 0
    left: Node = ""  # the neighbour of a broker that was removed: nobody can join the tree here
    sent_on: dict[Node, bool] = {}  # to an heir that has lost its memory since, and whether they have said farewell
    is_turned_away: bool = False  # it could not join itself: with whoever joined it, it would be a second tree
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))


class MembershipPart:
    """The change under way at one broker. Its phase changes here, by TRANSITIONS, and nowhere else."""

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.state = MembershipState()

    @property
    def operation(self) -> str:
        return "" if self.state.change is None else self.state.change.operation

    def begin(self, change: Changing, message: type[Message], speaker: Speaker) -> Observe:
        change.phase = TRANSITIONS[change.role, MembershipPhase.IDLE, message, speaker]
        self.state.change = change
        return change.note()

    def advance(self, change: Changing, message: type[Message], speaker: Speaker = Speaker.PARTNER) -> list[Observe]:
        """The phase after a legal message; returns what to note of it."""
        before, change.phase = change.phase, TRANSITIONS[change.role, change.phase, message, speaker]
        if change.phase is MembershipPhase.IDLE:
            self.end()
        return [change.note()] if change.phase not in (before, MembershipPhase.IDLE) else []

    def end(self) -> None:
        self.state.change = None
