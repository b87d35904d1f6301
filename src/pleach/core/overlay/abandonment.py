"""Operations that an operator abandons, since they wait for what will not come (decisions/0046-abandoned-operations).

Rule 1: each protocol says of its open operations what they wait for, and why one cannot be abandoned, if so. That
        depends on role and phase: the broker that may still decide against an operation can abandon it.
Rule 2: what is abandoned is undone, as if it had been refused, and this broker is free at once. The others hear of it
        behind all that they were told before; whoever is away hears of it when it is back.
Rule 3: an operation that only goes forward, or that is for another broker to decide, is left as it is. Whoever forgot
        one half of it would lose or double events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pleach.core.effects import Concluded, Effect
from pleach.core.messages import OPERATOR, Message, Node, RequestAbandon, asked_name
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.errors import ProtocolError

if TYPE_CHECKING:
    from pleach.core.overlay.context import BrokerContext

ABANDONED = "abandoned by an operator; nothing has changed"


class OpenOperation(NamedTuple):
    """An operation that this broker takes part in. `name`: as on the wire. `waits_for`: who has to say something next.

    `why_not`: why it cannot be abandoned here; empty where it can.
    """

    name: str
    phase: str
    waits_for: tuple[Node, ...] = ()
    why_not: str = ""


class Abandonable(Protocol):
    """A protocol whose operations may be abandoned."""

    @property
    def open_operations(self) -> Sequence[OpenOperation]: ...

    def abandon(self, operation: str) -> Reaction:
        """Undo an operation of which nothing says why not."""
        ...


class Abandonment:
    name = "abandonment"
    accepts: frozenset[type[Message]] = frozenset((RequestAbandon,))
    operation = ""  # it locks nobody

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        if sender != OPERATOR or not isinstance(message, RequestAbandon):
            raise ProtocolError(self._context.name, sender, message, "only operators abandon operations")
        for protocol in self._context.abandonable:
            for each in protocol.open_operations:
                if asked_name(each.name) != message.abandoned:
                    continue
                if each.why_not:
                    return Reaction([Concluded(message.operation, each.why_not)])
                undone = protocol.abandon(each.name)
                return undone._replace(effects=[*undone.effects, Concluded(message.operation)])
        reason = f"{self._context.name} takes part in no operation {message.abandoned}"
        return Reaction([Concluded(message.operation, reason)])

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        return Reaction()

    def resume(self) -> Sequence[Effect]:
        return ()

    def capture(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass
