"""The connections of an admin port: bounded in number, so that whoever asks at once is answered, whatever others do.

Rule 1: a connection that waits for its client, to send a request or to take the answer, may be closed for a new one. A
        connection whose request is being carried out is not.
Rule 2: an address has at most WAITING_PER_ADDRESS_MAX that wait: its oldest are closed for its next.
Rule 3: all addresses have at most WAITING_MAX that wait: the oldest of the address that has most is closed.
Rule 4: a connection is not closed for another one while something that it has sent was not read: that is its request.
Rule 5: answers that wait to be taken have at most UNSENT_BYTES_MAX bytes, or are one: the oldest is closed.

The time that a client has is bounded besides (server.py).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

WAITING_PER_ADDRESS_MAX = 64
WAITING_MAX = 256
ANSWERED_AT_ONCE_MAX = 128  # operations that are waited for, and streams
UNSENT_BYTES_MAX = 32 * 1_048_576
NETWORK_BITS = 64  # of IPv6: what one host is given


class ConnectionStage(Enum):
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()


@dataclass(eq=False, slots=True)
class OpenConnection:
    network: str
    abort: Callable[[], None]
    has_unread: Callable[[], bool]
    stage: ConnectionStage = ConnectionStage.RECEIVING
    unsent_bytes: int = 0

    @property
    def is_silent(self) -> bool:
        return self.stage is ConnectionStage.SENDING or not self.has_unread()


class OpenConnections:
    def __init__(self) -> None:
        self._open: dict[OpenConnection, None] = {}  # the oldest first

    def opened(self, connection: OpenConnection) -> None:
        """Others are closed, where its network, or all of them, have too many that wait."""
        waiting = [each for each in self._open if each.stage is not ConnectionStage.ANSWERING]
        own = [each for each in waiting if each.network == connection.network]
        self._open[connection] = None
        if len(own) >= WAITING_PER_ADDRESS_MAX:
            self._close_silent(own, 1 + len(own) - WAITING_PER_ADDRESS_MAX)
        elif len(waiting) >= WAITING_MAX:
            ((crowd, _),) = Counter(each.network for each in waiting).most_common(1)
            self._close_silent([each for each in waiting if each.network == crowd], 1)

    def closed(self, connection: OpenConnection) -> None:
        self._open.pop(connection, None)

    @property
    def is_busy(self) -> bool:
        """Whether so many requests are carried out that further ones are refused, but for public ones."""
        return sum(each.stage is ConnectionStage.ANSWERING for each in self._open) > ANSWERED_AT_ONCE_MAX

    def answering(self, connection: OpenConnection) -> None:
        connection.stage = ConnectionStage.ANSWERING

    def sending(self, connection: OpenConnection, unsent_bytes: int) -> None:
        connection.stage, connection.unsent_bytes = ConnectionStage.SENDING, unsent_bytes
        total = sum(each.unsent_bytes for each in self._open)
        for each in [each for each in self._open if each.unsent_bytes and each is not connection]:
            if total <= UNSENT_BYTES_MAX:
                return
            total -= each.unsent_bytes
            self._close(each)

    def _close_silent(self, oldest_first: list[OpenConnection], count: int) -> None:
        for each in islice((each for each in oldest_first if each.is_silent), count):
            self._close(each)

    def _close(self, connection: OpenConnection) -> None:
        self.closed(connection)
        connection.abort()


def network_of(host: str) -> str:
    """What connections are counted by: an address of IPv4, or a network of IPv6, whose addresses are for the taking."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
