"""Two ways in which a client moves by itself, for comparisons (S4 §4.4, "traditional client movement").

    covering    unsubscribes and unadvertises, waits for the answers, reconnects, and subscribes and advertises again
    reconnect   reconnects at once, and subscribes and advertises again

Neither guarantees delivery: what is published meanwhile may be lost, or come twice. Covering is a property of the
network's routing; S4 names the protocol after it, since it reduces what the protocol costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from pleach.core.messages import (
    Advertised,
    ClientReply,
    Node,
    Refused,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
)


class MoveProtocol(StrEnum):
    """How a client moves."""

    TRANSACTION = "transaction"
    COVERING = "covering"
    RECONNECT = "reconnect"


class Resettling(msgspec.Struct):
    """A client on its way. `awaited`: its requests that are not answered yet."""

    operation: str
    to: Node
    address: str
    has_arrived: bool = False
    awaited: list[str] = []

    def takes(self, reply: ClientReply) -> bool:
        """Whether it answers one of the awaited requests, which then is awaited no more."""
        match reply:
            case Unsubscribed(name) | Unadvertised(name) if not self.has_arrived:
                pass
            case Subscribed(name, is_change=False) | Advertised(name) | Refused(name) if self.has_arrived:
                pass
            case _:
                return False
        if name not in self.awaited:
            return False
        self.awaited.remove(name)
        return True


def taken_back(subscriptions: Iterable[str], advertisements: Iterable[str]) -> list[Unsubscribe | Unadvertise]:
    return [*map(Unsubscribe, sorted(subscriptions)), *map(Unadvertise, sorted(advertisements))]
