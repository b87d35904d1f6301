"""Two ways for a client to move by itself, for the comparison (S4 §4.4, "traditional client movement").

    covering    takes back all that it has asked for, waits for the answers, goes, and asks for it all again
    reconnect   goes at once, and asks for it all again

Neither promises anything: what is published meanwhile may be lost, or come twice. Covering as such is a matter of the
network's routing; the protocol is named after it since it is what makes it bearable.
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
    """A client on its way. `awaited`: what it asked its broker for, or asked back, without an answer so far."""

    operation: str
    to: Node
    address: str
    has_arrived: bool = False
    awaited: list[str] = []

    def takes(self, reply: ClientReply) -> bool:
        """Whether it is an answer to what this is about; then it has come."""
        match reply:
            case Unsubscribed(name) | Unadvertised(name) if not self.has_arrived:
                pass
            case Subscribed(name) | Advertised(name) | Refused(name) if self.has_arrived:
                pass
            case _:
                return False
        if name not in self.awaited:
            return False
        self.awaited.remove(name)
        return True


def taken_back(subscriptions: Iterable[str], advertisements: Iterable[str]) -> list[Unsubscribe | Unadvertise]:
    return [*map(Unsubscribe, sorted(subscriptions)), *map(Unadvertise, sorted(advertisements))]
