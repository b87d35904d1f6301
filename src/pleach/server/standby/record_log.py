"""The latest records of a store, in memory, for copies that come back soon; who needs older ones is filled anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from pleach.core.standby.positions import Position

LOG_BYTES_MAX = 64 * 1_048_576
ENTRY_BYTES = 200  # in memory, besides the record, about


class LoggedRecord(NamedTuple):
    """A record, and when it was made."""

    previous: Position
    position: Position
    record: bytes
    at: float


class Lag(NamedTuple):
    """How far behind the primary a copy is."""

    records: int
    bytes: int
    seconds: float


class RecordLog:
    def __init__(self, position: Position, *, bytes_max: int = LOG_BYTES_MAX) -> None:
        """`position`: of the store, before the first record."""
        self.position = position
        self._bytes_max = bytes_max
        self._records: deque[LoggedRecord] = deque()
        self._bytes = 0

    def append(self, logged: LoggedRecord) -> None:
        while self._records and self._records[-1].position != logged.previous:
            self._bytes -= _size(self._records.pop())  # it was handed out, and could not be written
        self.position = logged.position
        self._records.append(logged)
        self._bytes += _size(logged)
        while self._bytes > self._bytes_max:
            self._bytes -= _size(self._records.popleft())

    def since(self, position: Position | None) -> list[LoggedRecord] | None:
        """All records after a position; None: they are not all at hand."""
        if position is None:
            return None
        if position == self.position:
            return []
        found: list[LoggedRecord] = []
        for logged in reversed(self._records):
            found.append(logged)
            if logged.previous == position:
                return found[::-1]
        return None

    def lag(self, number: int, now: float) -> Lag:
        """Of whoever has all up to this commit; at least, where it is older than the log."""
        behind = list(self._after(number))
        return Lag(
            max(self.position.number - number, 0),
            sum(len(each.record) for each in behind),
            now - behind[-1].at if behind else 0.0,
        )

    def _after(self, number: int) -> Iterator[LoggedRecord]:
        """The newest first."""
        return takewhile(lambda each: each.position.number > number, reversed(self._records))


def _size(logged: LoggedRecord) -> int:
    return ENTRY_BYTES + len(logged.record)
