"""A bounded cache of the ids of events that a broker's clients recently published or received (S1 §5.5.4)."""

from __future__ import annotations

from pleach.core.optimise.bloom import Bloom, BloomShape, Positions, shape_for

CACHE_SIZE = 4_608  # S1 Table 5.2


class Cache:
    """Evicts the oldest. An id is kept once, however many clients of the broker receive the event."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._shape = shape_for(size)
        self._positions: dict[str, Positions] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def shape(self) -> BloomShape:
        return self._shape

    def consumed(self, event_id: str) -> None:
        if event_id in self._positions:
            return
        self._positions[event_id] = self._shape.positions(event_id)
        if len(self._positions) > self._size:
            del self._positions[next(iter(self._positions))]

    def summary(self) -> Bloom:
        return Bloom.of(self._shape, self._positions.values())

    def common(self, other: Bloom) -> int:
        """The number of these ids that the other has too; false positives of the Bloom filter included."""
        return sum(map(other.has, self._positions.values()))
