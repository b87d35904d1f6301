"""Messages of the link exchange protocols (S1 §4.4, S2; docs/protocols/)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.messages.base import Integer, Message, NetworkAddress, Node
from pleach.core.messages.requests import NodePath, RequestExchange
from pleach.core.messages.routing import Install, Settle, Withdraw
from pleach.core.messages.swaplink import TableEntries


class LockCycle(Message, frozen=True, tag=80):
    """From B1 along the cycle to Bn, and from there back over the new link (S1 Algorithm 2). `address`: B1's."""

    operation: str
    path: NodePath
    cut: Integer
    protocol: str
    address: NetworkAddress = ""


class CycleRefused(Message, frozen=True, tag=81):
    """A broker of the cycle refuses; goes back to B1, and unlocks on its way. `is_busy`: it may accept later."""

    operation: str
    reason: str
    is_busy: bool = False


class Begin(Message, frozen=True, tag=82):
    """From B1 to both ends of the old link (S1 Algorithm 3)."""

    operation: str


class RelayTables(Message, frozen=True, tag=83):
    """From an end of the old link to the end of the new one on its side (S1 Algorithm 3: the relayed subscriptions).

    `received`: its entries from the other side; `told`: the other side's entries from it; both as of now.
    """

    operation: str
    received: list[TableEntries]
    told: list[TableEntries]
    is_settled: bool


class RelayRouting(Message, frozen=True, tag=84):
    """As RelayTables, for one message that came over the old link later (S1 Algorithm 7, line 7)."""

    operation: str
    message: Install | Withdraw


class Separator(Message, frozen=True, tag=85):
    """Separates black from gray (S1 Algorithm 4). `origin`: the end of the old link on whose side it began."""

    operation: str
    origin: Node
    is_relayed: bool = False  # on its way to the new link; turns no broker gray yet


class EndOfRelay(Message, frozen=True, tag=86):
    """The last relayed message has been sent (S1 Algorithm 5)."""

    operation: str


class Unlock(Message, frozen=True, tag=87):
    """The sender has finished its part (S1 Algorithm 6); only the printed variant needs it."""

    operation: str


class Activate(Message, frozen=True, tag=88):
    """B1's first message on the new link: from now on routing messages use it.

    `told`: the entries that B1 takes for Bn's. `is_settled`: they are in effect on all of B1's side.
    """

    operation: str
    told: list[TableEntries] = msgspec.field(default_factory=list)
    is_settled: bool = True


class Flush(Message, frozen=True, tag=89):
    """Follows the subscriptions of one end of the new link to every broker on the other side (S1 §4.4.1)."""

    operation: str
    origin: Node


class Begun(Message, frozen=True, tag=90):
    """From the second end of the old link to the first: its last routing message over it."""

    operation: str


class Reconfigure(Message, frozen=True, tag=91):
    """RECMSG (S2 §4.3.1), from the first end of the old link by way of the new one to the second.

    `add`: P_add, the entries that lead to the other side from now on. `changes`: further routing messages of the
    sender, P_del included. `is_settled`: nothing was unanswered on the old link.
    """

    operation: str
    add: list[TableEntries] = msgspec.field(default_factory=list)
    changes: list[Install | Withdraw | Settle] = msgspec.field(default_factory=list)
    is_settled: bool = True


class Reconfigured(Message, frozen=True, tag=92):
    """RECMSG has arrived (S2 §4.3.2): later routing messages of the sender take it into account."""

    operation: str


class Removed(Message, frozen=True, tag=93):
    """The last message of an end of the old link over it."""

    operation: str


class Done(Message, frozen=True, tag=94):
    """From an end of the old link, `origin`, to the end of the new one on its side; from Bn on to B1: it is gone."""

    operation: str
    origin: Node


class CycleForgotten(Message, frozen=True, tag=95):
    """Asks the ends of the old link for the outcome of an exchange: `broker`, of the cycle, has lost its state.

    `address`: B1's. `is_blank`: the end of the old link that forwards this to the other end knows of no exchange.
    """

    operation: str
    path: NodePath
    cut: Integer
    protocol: str
    address: NetworkAddress
    broker: Node
    is_blank: bool = False


class CycleEnded(Message, frozen=True, tag=96):
    """The answer, along the whole cycle: the new link is in place (`is_done`), or still the old one.

    The link that it crosses is reset behind it. `is_answer`: it answers the receiver's own `CycleEnded`.
    """

    operation: str
    path: NodePath
    cut: Integer
    protocol: str
    address: NetworkAddress
    broker: Node
    is_done: bool
    is_answer: bool = False


class CycleAbandoned(Message, frozen=True, tag=97):
    """From B1 along the cycle, behind `LockCycle`: it does not begin. Unlocks on its way."""

    operation: str


ExchangeMessage: TypeAlias = (
    RequestExchange
    | LockCycle
    | CycleRefused
    | Begin
    | RelayTables
    | RelayRouting
    | Separator
    | EndOfRelay
    | Unlock
    | Activate
    | Flush
    | Begun
    | Reconfigure
    | Reconfigured
    | Removed
    | Done
    | CycleForgotten
    | CycleEnded
    | CycleAbandoned
)
