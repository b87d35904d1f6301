"""Messages of client movement, a transaction between two brokers (S4 §4; docs/protocols/movement.md).

Between brokers these go hop by hop along the path: towards the target `Negotiate`, `MoveState`, `MoveCommit` and
`MoveAbort`, towards the source `Approve`, `Reject` and `MoveAck`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.event import EventId
from pleach.core.messages.base import Integer, Life, Message, NetworkAddress, Node
from pleach.core.messages.membership import HandedClient
from pleach.core.messages.requests import NodePath, RequestMove

# Between brokers ------------------------------------------------------------------------------------------------


class Negotiate(Message, frozen=True, tag=128):
    """Asks the target to accept a client; sent again where the client changes its requests meanwhile.

    `path`: from its broker to the target. `delay_ms_max`: as in `RequestMove`. `component`: its kind, if its broker
    hosts it.
    """

    operation: str
    client: HandedClient
    path: NodePath
    delay_ms_max: Integer = 0
    component: str = ""


class Approve(Message, frozen=True, tag=129):
    """The target accepts: the client's entries are installed along the path, beside those of its own broker.

    `address`, `life`: the target's address for clients, and its epoch; in a later one it does not know the client.
    """

    operation: str
    address: NetworkAddress = ""
    life: Life = 0


class Reject(Message, frozen=True, tag=130):
    """The client stays, and no entry of it is left on the path. `is_busy`: ask again later."""

    operation: str
    reason: str
    is_busy: bool = False


class MoveState(Message, frozen=True, tag=131):
    """The client's state after it has halted. `delivered`: events delivered to it since the negotiation began.

    `component`: its packed state, if its broker hosts it.
    """

    operation: str
    client: HandedClient
    delivered: list[EventId] = msgspec.field(default_factory=list)
    component: bytes = b""


class MoveAck(Message, frozen=True, tag=132):
    """The target has taken the client over."""

    operation: str


class MoveCommit(Message, frozen=True, tag=133):
    """The source has withdrawn its entries for the client; brokers on the path are unlocked.

    `is_sure`: false where a broker on the path sends it because the one before it has lost its state; the source may
    still send `MoveAbort`.
    """

    operation: str
    is_sure: bool = True


class MoveAbort(Message, frozen=True, tag=134):
    """The source has given up: withdraw the entries of the movement, and answer `Reject`.

    `path`: set where a broker on the path has lost its state, and forwards this without knowing of the movement.
    """

    operation: str
    path: list[Node] = msgspec.field(default_factory=list)


# Between a client and its broker ---------------------------------------------------------------------------------


class Halt(Message, frozen=True, tag=135):
    """Send nothing more (but `Halted`) until `Resume`."""

    operation: str


class Halted(Message, frozen=True, tag=136):
    operation: str


class Resume(Message, frozen=True, tag=137):
    """Go on at `broker`, which listens at `address`, or at the sender if `broker` is the sender.

    `life`: the epoch in which `broker` knows the client.
    """

    operation: str
    broker: Node
    address: NetworkAddress = ""
    life: Life = 0


MovementMessage: TypeAlias = (
    RequestMove | Negotiate | Approve | Reject | MoveState | MoveAck | MoveCommit | MoveAbort | Halted
)
