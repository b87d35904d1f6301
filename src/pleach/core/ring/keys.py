"""Keys on a circle.

Rule: comparisons are clockwise distances from a key. There is no smaller or larger on a circle.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from pleach.errors import RingError

BITS_MAX: Final = 62  # a key is an integer on the wire


class Circle(NamedTuple):
    """2^bits keys, from 0 on."""

    bits: int

    @property
    def size(self) -> int:
        return 1 << self.bits

    def distance(self, start: int, end: int) -> int:
        """Clockwise; 0 from a key to itself."""
        return (end - start) & (self.size - 1)

    def is_between(self, low: int, key: int, high: int) -> bool:
        """Strictly, clockwise. Between a key and itself lies everything else."""
        mask = self.size - 1
        return 0 < (key - low) & mask < ((high - low - 1) & mask) + 1

    def key_of(self, name: str) -> int:
        """The key of a name, the same at every host."""
        return int.from_bytes(sha256(name.encode()).digest()[:8]) >> (64 - self.bits)


def circle(bits: int) -> Circle:
    """Raises RingError for an invalid number of bits."""
    if not 1 <= bits <= BITS_MAX:
        raise RingError(f"keys of {bits} bits; they have 1 to {BITS_MAX}")
    return Circle(bits)


class Arc(NamedTuple):
    """The keys after `low` up to and including `high`, clockwise: those of the host at `high`. All, if both are one."""

    circle: Circle
    low: int
    high: int

    def __contains__(self, key: object) -> bool:
        mask = self.circle.size - 1
        return isinstance(key, int) and (key - self.low - 1) & mask <= (self.high - self.low - 1) & mask

    @property
    def length(self) -> int:
        return self.circle.distance(self.low, self.high) or self.circle.size

    def holds(self, first: int, last: int) -> bool:
        """Whether all keys from `first` to `last` (no smaller) are in it."""
        offset = self.circle.distance(self.low + 1, first)
        return self.low == self.high or offset + last - first < self.length

    def spans(self) -> Iterator[tuple[int, int]]:
        """As intervals of plain numbers: one, or two where it goes over zero."""
        first = (self.low + 1) & (self.circle.size - 1)
        if first <= self.high:
            yield first, self.high
        else:
            yield 0, self.high
            yield first, self.circle.size - 1

    def meets(self, first: int, last: int) -> bool:
        return any(start <= last and first <= end for start, end in self.spans())
