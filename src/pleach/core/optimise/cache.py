"""The ids of the events that a broker's own clients published or got lately (S1 §5.5.4): a ring of bounded size."""

from __future__ import annotations

from typing import Protocol

from pleach.core.optimise.bloom import Bloom, BloomShape, Positions, shape_for

CACHE_SIZE = 4_608  # S1 Table 5.2


class EventMemory(Protocol):
    """What a broker remembers of its events: those of a level, which is how rare the kept ones are (`sample.py`)."""

    @property
    def level(self) -> int: ...

    def consumed(self, event_id: str, now: float) -> None: ...

    def summary(self) -> Bloom: ...

    def common(self, other: Bloom, level: int) -> int:
        """How many events it has in common with a summary of this level."""
        ...


class Cache:
    """The oldest go first. An id comes once, however many clients of the broker want the event."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._shape = shape_for(size)
        self._positions: dict[str, Positions] = {}  # in the order in which they came

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def shape(self) -> BloomShape:
        return self._shape

    @property
    def level(self) -> int:
        return 0

    def consumed(self, event_id: str, now: float = 0.0) -> None:
        """A ring does not look at the time."""
        del now
        if event_id in self._positions:
            return
        self._positions[event_id] = self._shape.positions(event_id)
        if len(self._positions) > self._size:
            del self._positions[next(iter(self._positions))]

    def summary(self) -> Bloom:
        return Bloom.of(self._shape, self._positions.values())

    def common(self, other: Bloom, level: int = 0) -> int:
        """How many of these ids the other has too; a few more than there are, as Bloom filters go."""
        assert level == 0, "a sample cannot be compared with a ring: filters of two shapes"
        return sum(map(other.has, self._positions.values()))
