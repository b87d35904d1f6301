"""The contract of "replace link r by link a": what every exchange protocol implements, and the table that it obeys.

A protocol is one class, a *part*: what one broker does between lock and end. The machine locks the cycle before, ends
the part afterwards, and gives it the messages of the exchange; registry.py lists the protocols by name.

Rule 1: a part is in one phase per role (`Cycle.roles`) and aspect. TRANSITIONS lists, by role, phase and input, the
        phases that may follow.
Rule 2: a message that no row allows, in any phase of the broker, is a fault of its sender (`ProtocolError`) and changes
        nothing. A timer that no row allows is left over from another exchange, and is ignored.
Rule 3: after each step every phase is what a row for this input says, or, where there is none since another role of
        the same broker was addressed, what any row of the phase says. This is asserted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from pleach.core.effects import Effect, Observe, phase_seen
from pleach.core.messages import Message, Node, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.cycle import Cycle, CycleRole
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.errors import ProtocolError

PART: Final = "exchange:part"  # the timer of a part

NOTHING = Reaction()


class ExchangePart(Protocol):
    """One broker's part in one exchange, by one protocol; it is made when the broker is locked."""

    @property
    def cycle(self) -> Cycle: ...

    @property
    def is_over(self) -> bool:
        """Whether the exchange is over at this broker.

        When it is over at u, the operation is done: links and tables of u's side are those of the new tree, and no
        message of the exchange is still on its way there.
        """
        ...

    @property
    def old_link(self) -> OldLink:
        """At an end of r: whether this end, and the other one, still use it."""
        ...

    @property
    def seam(self) -> Reconfiguration: ...

    def begin(self, lock_seconds: float, /) -> Reaction:
        """At u: all brokers are locked, which took so long, and the new link is open."""
        ...

    def handle(self, sender: Node, message: Message) -> Reaction: ...

    def due(self) -> Reaction:
        """Its timer, `PART`, is due."""
        ...

    def resume(self) -> Sequence[Effect]: ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


PartMaker: TypeAlias = Callable[[BrokerContext, Cycle, str], ExchangePart]


def note(cycle: Cycle, what: str, *, is_done: bool = False) -> Observe:
    return phase_seen("exchange", cycle.operation, what, is_done=is_done)


# The table -----------------------------------------------------------------------------------------------------------


class Start:
    """The input of `begin`."""


class TimerDue:
    """The input of `due`."""


Input: TypeAlias = type | Enum  # a message type, one of the two above, or what a protocol makes of a message
Transitions: TypeAlias = Mapping[tuple[CycleRole, StrEnum, Input], tuple[StrEnum, ...]]


def table(
    *rows: tuple[CycleRole, StrEnum, Input] | tuple[CycleRole, StrEnum, Input, *tuple[StrEnum, ...]],
    beside: Transitions = MappingProxyType({}),
) -> Transitions:
    """Transitions from rows of (roles, phase, input, phases that may follow); without the latter the phase stays.

    `beside`: those of another table, where no row replaces them.
    """
    found: dict[tuple[CycleRole, StrEnum, Input], tuple[StrEnum, ...]] = {}
    for roles, phase, cause, *after in rows:
        for role in roles:
            assert (role, phase, cause) not in found, (role, phase, cause)
            found[role, phase, cause] = tuple(after) or (phase,)
    return found | {row: after for row, after in beside.items() if row not in found}


class TablePart(ABC):
    """A part whose steps are checked against its table."""

    TRANSITIONS: ClassVar[Transitions]
    State: ClassVar[type[msgspec.Struct]]
    state: Any  # an instance of `State`

    def __init__(self, context: BrokerContext, cycle: Cycle, ordering: str) -> None:
        self._context = context
        self._ordering = ordering
        self.cycle = cycle
        self.name = context.name
        self.state = self._fresh()
        self.seam = self._at_seam()

    def _fresh(self) -> msgspec.Struct:
        return self.State()

    @abstractmethod
    def _at_seam(self) -> Reconfiguration:
        """The seam for the present state."""

    @abstractmethod
    def phases(self) -> set[tuple[CycleRole, StrEnum]]:
        """The phase of each role of this broker; a role may have several, of different types."""

    @abstractmethod
    def _begin(self, lock_seconds: float) -> Reaction: ...

    @abstractmethod
    def _react(self, sender: Node, message: Message) -> Reaction: ...

    def _due(self) -> Reaction:
        return NOTHING

    @abstractmethod
    def _input(self, sender: Node, message: Message) -> Input | None:
        """What the table has for a message; None if no such message comes from this sender."""

    def begin(self, lock_seconds: float, /) -> Reaction:
        before = self.phases()
        return self._checked(before, Start, self._begin(lock_seconds))

    def handle(self, sender: Node, message: Message) -> Reaction:
        before, cause = self.phases(), self._input(sender, message)
        if cause is None or not self._is_legal(before, cause):
            phases = ", ".join(sorted(f"{role.name} {phase}" for role, phase in before))
            raise ProtocolError(self.name, sender, message, f"it does not fit the exchange, whose phase is {phases}")
        return self._checked(before, cause, self._react(sender, message))

    def due(self) -> Reaction:
        before = self.phases()
        return self._checked(before, TimerDue, self._due()) if self._is_legal(before, TimerDue) else NOTHING

    def resume(self) -> Sequence[Effect]:
        return ()

    def capture(self) -> bytes:
        return pack(self.state)

    def restore(self, state: bytes) -> None:
        self.state = unpack(state, self.State)
        self.seam = self._at_seam()

    @property
    def _over_new(self) -> Node:
        """The other end of a; empty at a broker that is none."""
        return self.cycle.across_new(self.name) or ""

    @property
    def _over_old(self) -> Node:
        return self.cycle.across_old(self.name) or ""

    def _is_legal(self, phases: set[tuple[CycleRole, StrEnum]], cause: Input) -> bool:
        return any((role, phase, cause) in self.TRANSITIONS for role, phase in phases)

    def _checked(self, before: set[tuple[CycleRole, StrEnum]], cause: Input, reaction: Reaction) -> Reaction:
        """The reaction, after the assertion of rule 3."""
        after = {type(phase): phase for _, phase in self.phases()}
        for phase in {phase for _, phase in before}:
            roles = [role for role, each in before if each is phase]
            allowed = {to for role in roles for to in self.TRANSITIONS.get((role, phase, cause), ())}
            reached = after[type(phase)]
            assert reached in (allowed or self._changes(roles, phase)), (self.name, roles, phase, cause, reached)
        return reaction

    def _changes(self, roles: Sequence[CycleRole], phase: StrEnum) -> set[StrEnum]:
        """What a phase may become, by whichever input; it may stay."""
        rows = self.TRANSITIONS.items()
        return {phase, *(to for (role, each, _), after in rows if role in roles and each is phase for to in after)}
