"""Which deliveries the application has consumed, and so how far a session may be confirmed to the broker.

1  2  3  4  5  6        ✓ consumed by every subscription that got it
✓  ✓     ✓     ·        position 2: everything up to there is consumed; received 6
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from pleach.events.event import Event


class Receipt(msgspec.Struct):
    """One delivery. `copies` counts the subscriptions that have not consumed it."""

    number: int  # counts deliveries of this client, over all lives of its broker: the key on disk
    sequence: int  # of the session; 0: of a life of the broker that is over
    event: Event
    copies: int
    is_kept: bool = False  # on the client's own disk, so that the broker need not keep it


class Receipts:
    def __init__(self, received: int = 0) -> None:
        self._received = received
        self._number = 0
        self._open: deque[Receipt] = deque()  # in order; consumed ones leave once nothing before them is open

    def __iter__(self) -> Iterator[Receipt]:
        return (receipt for receipt in self._open if receipt.copies)

    @property
    def received(self) -> int:
        return self._received

    @property
    def position(self) -> int:
        """All up to this sequence is consumed, or kept here."""
        for receipt in self._open:
            if receipt.copies and receipt.sequence and not receipt.is_kept:
                return receipt.sequence - 1
        return self._received

    def passed(self, sequence: int) -> None:
        """Something other than a delivery arrived, which nobody consumes."""
        self._received = sequence

    def arrived(self, sequence: int, event: Event, copies: int) -> Receipt:
        self._received = sequence
        self._number += 1
        receipt = Receipt(self._number, sequence, event, copies)
        self._open.append(receipt)
        return receipt

    def recalled(self, number: int, event: Event, copies: int) -> Receipt:
        """An event that a former process kept."""
        self._number = number
        receipt = Receipt(number, 0, event, copies, is_kept=True)
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
        self._received = received
        for receipt in self._open:
            receipt.sequence = 0
