"""A client moves to another broker, as a transaction (S4 §4; docs/protocols/movement.md).

Between brokers these go hop by hop along the path: towards the target `Negotiate`, `MoveState`, `MoveCommit` and
`MoveAbort`, towards the source `Approve`, `Reject` and `MoveAck`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.event import EventId
from pleach.core.messages.base import Life, Message, Node
from pleach.core.messages.membership import HandedClient
from pleach.core.messages.requests import NodePath, RequestMove

# Between brokers ------------------------------------------------------------------------------------------------


class Negotiate(Message, frozen=True, tag=128):
    """May this client come? Again with the same operation: it has changed its mind meanwhile about what it wants.

    `path`: from its broker to the one that is asked. `delay_ms_max`: as in `RequestMove`. `component`: of which kind it
    is, if its broker hosts it.
    """

    operation: str
    client: HandedClient
    path: NodePath
    delay_ms_max: int = 0
    component: str = ""


class Approve(Message, frozen=True, tag=129):
    """It may: what it wants is installed all the way beside what its own broker has. `address`: where it shall go.

    `life`: that of the target; a later one does not know the client.
    """

    operation: str
    address: str = ""
    life: Life = 0


class Reject(Message, frozen=True, tag=130):
    """It stays where it is, and nothing of it is left on the way. `is_busy`: ask again later."""

    operation: str
    reason: str
    is_busy: bool = False


class MoveState(Message, frozen=True, tag=131):
    """The client as it is now that it has halted. `delivered`: what it has got since the negotiation began.

    `component`: all that it is, if it lives in its broker.
    """

    operation: str
    client: HandedClient
    delivered: list[EventId] = msgspec.field(default_factory=list)
    component: bytes = b""


class MoveAck(Message, frozen=True, tag=132):
    """The client is the target's."""

    operation: str


class MoveCommit(Message, frozen=True, tag=133):
    """The source has taken back what it had told for the client; everyone on the way is free again.

    `is_sure`: else a broker on the way says it, since the one before it has lost its memory. The source may still say
    `MoveAbort`.
    """

    operation: str
    is_sure: bool = True


class MoveAbort(Message, frozen=True, tag=134):
    """The source has given up: take back what is installed beside, and say so (`Reject`).

    `path`: given where a broker on the way has lost its memory, and passes this on without knowing of the movement.
    """

    operation: str
    path: list[Node] = msgspec.field(default_factory=list)


# Between a client and its broker ---------------------------------------------------------------------------------


class Halt(Message, frozen=True, tag=135):
    """Say nothing more (but `Halted`), until `Resume`."""

    operation: str


class Halted(Message, frozen=True, tag=136):
    operation: str


class Resume(Message, frozen=True, tag=137):
    """Go on: at `broker`, which listens at `address`, or (if it is the sender itself) where you are.

    `life`: that of `broker` which knows you.
    """

    operation: str
    broker: Node
    address: str = ""
    life: Life = 0


MovementMessage: TypeAlias = (
    RequestMove | Negotiate | Approve | Reject | MoveState | MoveAck | MoveCommit | MoveAbort | Halted
)
