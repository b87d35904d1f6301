"""Exchange of one link for another (S1 §4.4, S2; docs/protocols/)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.messages.base import Message, Node
from pleach.core.messages.requests import NodePath, RequestExchange
from pleach.core.messages.routing import Install, Settle, Withdraw
from pleach.core.messages.swaplink import TableEntries


class LockCycle(Message, frozen=True, tag=80):
    """From B1 along the cycle to Bn, and from there back over the new link (S1 Algorithm 2). `address`: B1's."""

    operation: str
    path: NodePath
    cut: int
    protocol: str
    address: str = ""


class CycleRefused(Message, frozen=True, tag=81):
    """A broker of the cycle does not take part; unwinds to B1. `is_busy`: it may later."""

    operation: str
    reason: str
    is_busy: bool = False


class Begin(Message, frozen=True, tag=82):
    """From B1 to both ends of the old link (S1 Algorithm 3)."""

    operation: str


class RelayTables(Message, frozen=True, tag=83):
    """From an end of the old link to the end of the new one on its side (S1 Algorithm 3: the relayed subscriptions).

    What it has of the other side, and the other side of it, as of now.
    """

    operation: str
    received: list[TableEntries]
    told: list[TableEntries]
    is_settled: bool


class RelayRouting(Message, frozen=True, tag=84):
    """As RelayTables, for what came over the old link later (S1 Algorithm 7, line 7)."""

    operation: str
    message: Install | Withdraw


class Separator(Message, frozen=True, tag=85):
    """Separates black from gray (S1 Algorithm 4). `origin`: the end of the old link on whose side it began."""

    operation: str
    origin: Node
    is_relayed: bool = False  # on its way to the new link, before it turns anyone gray


class EndOfRelay(Message, frozen=True, tag=86):
    """Nothing more will be relayed (S1 Algorithm 5)."""

    operation: str


class Unlock(Message, frozen=True, tag=87):
    """The sender has no more to do with the exchange (S1 Algorithm 6); only the printed variant needs it."""

    operation: str


class Activate(Message, frozen=True, tag=88):
    """The first of B1 on the new link: from now on routing goes over it.

    `told`: what B1 takes Bn to have told it. `is_settled`: that is in effect on all of B1's side.
    """

    operation: str
    told: list[TableEntries] = msgspec.field(default_factory=list)
    is_settled: bool = True


class Flush(Message, frozen=True, tag=89):
    """Behind the subscriptions of one end of the new link, to everyone on the other side (S1 §4.4.1)."""

    operation: str
    origin: Node


class Begun(Message, frozen=True, tag=90):
    """From the second end of the old link to the first: nothing more is told over it."""

    operation: str


class Reconfigure(Message, frozen=True, tag=91):
    """RECMSG (S2 §4.3.1), from the first end of the old link by way of the new one to the second.

    `add`: P_add, what leads to the other side from now on. `changes`: what the sender tells the receiver beside it,
    P_del included. `is_settled`: nothing was unanswered on the old link.
    """

    operation: str
    add: list[TableEntries] = msgspec.field(default_factory=list)
    changes: list[Install | Withdraw | Settle] = msgspec.field(default_factory=list)
    is_settled: bool = True


class Reconfigured(Message, frozen=True, tag=92):
    """RECMSG has come (S2 §4.3.2): what the sender tells from now on takes it into account."""

    operation: str


class Removed(Message, frozen=True, tag=93):
    """The last that an end of the old link sends over it."""

    operation: str


class Done(Message, frozen=True, tag=94):
    """From an end of the old link, `origin`, to the end of the new one on its side; from Bn on to B1: it is gone."""

    operation: str
    origin: Node


class CycleForgotten(Message, frozen=True, tag=95):
    """A broker of the cycle, `broker`, has lost its memory: what becomes of the exchange? To the ends of the old link.

    `address`: B1's. `is_blank`: the end of the old link that passes it on to the other one knows of no exchange.
    """

    operation: str
    path: NodePath
    cut: int
    protocol: str
    address: str
    broker: Node
    is_blank: bool = False


class CycleEnded(Message, frozen=True, tag=96):
    """The answer, all along the cycle: the new link is there (`is_done`), or still the old one.

    The link that it comes over starts over behind it. `is_answer`: to the same from the receiver.
    """

    operation: str
    path: NodePath
    cut: int
    protocol: str
    address: str
    broker: Node
    is_done: bool
    is_answer: bool = False


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
)
