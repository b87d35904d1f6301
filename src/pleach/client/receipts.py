"""Which deliveries the application has consumed, and so how far a session may be confirmed to the broker.

payloads  1     2        3                   several messages in one payload: its number, and places in it
events    a  b  c  d  e  f  g   ✓ consumed by every subscription that got it
          ✓  ✓  ✓  ·  ✓  ·  ·   position: 1, and of the payload behind it 1 message; received 3
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from pleach.core.events.event import Event


class Receipt(msgspec.Struct, gc=False):
    """One delivery. `copies` counts the subscriptions that have not consumed it."""

    number: int  # counts deliveries of this client, over all lives of its broker: the key on disk
    sequence: int  # of its payload in the session; 0: of a life of the broker that is over
    place: int  # in its payload
    event: Event
    copies: int
    is_kept: bool = False  # on the client's own disk, so that the broker need not keep it


class Receipts:
    def __init__(self, received: int = 0, skip: int = 0) -> None:
        """`skip`: messages of the next payload that a former process has consumed."""
        self._received = received
        self._places = 0  # how many messages of the payload `received` are here
        self._skip = skip
        self._number = 0
        self._open: deque[Receipt] = deque()  # in order; consumed ones leave once nothing before them is open

    def __iter__(self) -> Iterator[Receipt]:
        return (receipt for receipt in self._open if receipt.copies)

    @property
    def received(self) -> int:
        return self._received

    @property
    def position(self) -> tuple[int, int]:
        """All up to this payload is consumed, or kept here, and so are the first messages of the one behind it."""
        for receipt in self._open:
            if receipt.copies and receipt.sequence and not receipt.is_kept:
                return receipt.sequence - 1, receipt.place
        return self._received, 0 if self._places else self._skip

    def is_new(self, sequence: int) -> bool:
        """The next message of a payload is here; says whether a former process has not consumed it already."""
        if sequence != self._received:
            if self._places:
                self._skip = 0
            self._received, self._places = sequence, 0
        self._places += 1
        return self._places > self._skip

    def arrived(self, event: Event, copies: int) -> Receipt:
        """The message that `is_new` was last asked about is a delivery."""
        self._number += 1
        receipt = Receipt(self._number, self._received, self._places - 1, event, copies)
        self._open.append(receipt)
        return receipt

    def recalled(self, number: int, event: Event, copies: int) -> Receipt:
        """An event that a former process kept."""
        self._number = number
        receipt = Receipt(number, 0, 0, event, copies, is_kept=True)
        self._open.append(receipt)
        return receipt

    def consumed(self, receipt: Receipt) -> bool:
        """One subscription is done with it; says whether all are."""
        assert receipt.copies > 0, "consumed twice"
        receipt.copies -= 1
        while self._open and not self._open[0].copies:
            self._open.popleft()
        return receipt.copies == 0

    def restart(self, received: int) -> None:
        """The broker was reborn: what is open belongs to its former life, and confirms nothing any more."""
        self._received, self._places, self._skip = received, 0, 0
        for receipt in self._open:
            receipt.sequence = 0
