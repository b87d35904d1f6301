"""Messages of SwapLink (S0 §IV-A); the numbers are those of docs/protocols/swaplink.md."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.filter import Filter
from pleach.core.messages.base import Layer, Message, NetworkAddress, Node
from pleach.core.messages.requests import RequestSwap


class TableEntries(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Routing entries of one layer, owner and filter each."""

    layer: Layer
    entries: list[tuple[str, Filter]]


class Lock(Message, frozen=True, tag=64):
    """1, 2: a → b → c. `address`: where a listens, for c to open the new link. `is_published`: as S0 prints it."""

    operation: str
    a: Node
    b: Node
    c: Node
    address: NetworkAddress = ""
    is_published: bool = False


class LockAck(Message, frozen=True, tag=65):
    """3, 4: c → b → a. Also close(c→b→a): c's last message to a through b."""

    operation: str


class LockNack(Message, frozen=True, tag=66):
    """b or c refuses. `is_busy`: it may accept later."""

    operation: str
    reason: str
    is_busy: bool = False


class Abort(Message, frozen=True, tag=67):
    """b has given the swap up before it forwarded `Swap`: the old tree stays. `reason`: if it is not a's silence."""

    operation: str
    reason: str = ""


class Aborted(Message, frozen=True, tag=68):
    """c → b → a, after `Abort`: no flooded event follows."""

    operation: str


class Swap(Message, frozen=True, tag=69):
    """5, 6: a → b → c. Also close(a→b→c). 7: c → a, on the new link.

    From b to c it carries what c does not know: the entries of a's and b's sides apart, and how a's table differs from
    the one that c would compute (empty unless reductions do not compose). `is_settled`: nothing is unanswered between
    a and b; else c asks both to confirm their entries.
    """

    operation: str
    side_a: list[TableEntries] = msgspec.field(default_factory=list)
    side_b: list[TableEntries] = msgspec.field(default_factory=list)
    known_at_a: list[TableEntries] = msgspec.field(default_factory=list)
    unknown_at_a: list[TableEntries] = msgspec.field(default_factory=list)
    root_is_behind_a: bool = False
    is_settled: bool = True


class Open(Message, frozen=True, tag=70):
    """8: a → c, open(acb): from now on a's traffic to b comes here."""

    operation: str


class Close(Message, frozen=True, tag=71):
    """9: a → b and 10: b → c, close(ab), for c also open(bca). 11: b → a and 12: a → c, close(ba)."""

    operation: str


class Forgot(Message, frozen=True, tag=72):
    """b → a or c: the third of them, `broker`, has lost its state, which the receiver may not notice itself.

    `is_asking`: a → c, where b is the third. c decides when it hears of that itself; if it has undone the swap already,
    as b had told it, it answers with `Abort`.
    """

    operation: str
    broker: Node
    is_asking: bool = False


class SwapAbandoned(Message, frozen=True, tag=73):
    """a → b, behind `Lock` and instead of `Swap`: a has given the swap up, and is free."""

    operation: str


SwapLinkMessage: TypeAlias = (
    RequestSwap | Lock | LockAck | LockNack | Abort | Aborted | Swap | Open | Close | Forgot | SwapAbandoned
)
