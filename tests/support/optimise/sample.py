"""The sample of one broker, event by event: the reference for the flows of `lab/improve/sampling.py`."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pleach.core.optimise.cache import Bloom, Positions, shape_for
from pleach.core.optimise.sightings import LEVEL_MAX, spelled_level
from pleach.lab.improve.sampling import HORIZON, SAMPLE_MAX

ROOMY = 4  # a sample of no more than this part of the most goes back by a level


class _Kept(NamedTuple):
    at: float
    level: int
    positions: Positions


class Sample:
    """The events of the last while, from a level on. Filters of all samples have one shape."""

    def __init__(self) -> None:
        self._shape = shape_for(SAMPLE_MAX)
        self._level = 0
        self._higher: deque[tuple[float, int]] = deque()  # until when the level was higher; the last change last
        self._kept: dict[str, _Kept] = {}  # in the order in which they came

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def level(self) -> int:
        """From this one on everything is there, though the level may have been lowered since."""
        return max([self._level, *(level for _, level in self._higher)])

    def consumed(self, event_id: str, now: float) -> None:
        """An id comes once, however many clients of the broker want the event."""
        level = spelled_level(event_id)
        if level < self._level or event_id in self._kept:
            return
        self._kept[event_id] = _Kept(now, level, self._shape.positions(event_id))
        if len(self._kept) > SAMPLE_MAX:
            self.forget(now)
        while len(self._kept) > SAMPLE_MAX and self._level < LEVEL_MAX:
            self._level += 1
            self._kept = {each: kept for each, kept in self._kept.items() if kept.level >= self._level}

    def forget(self, now: float) -> None:
        """What is older than ledgers. At half the level there would still be plenty of room: it is lowered."""
        while self._kept and next(iter(self._kept.values())).at < now - HORIZON:
            del self._kept[next(iter(self._kept))]
        while self._higher and self._higher[0][0] < now - HORIZON:
            self._higher.popleft()
        if self._level and ROOMY * len(self._kept) <= SAMPLE_MAX and not self._higher:
            self._higher.append((now, self._level))
            self._level -= 1

    def summary(self) -> Bloom:
        return Bloom.of(self._shape, (kept.positions for kept in self._kept.values()))

    def common(self, other: Bloom, level: int) -> int:
        """About how many events the other has too: those of a level that both have, times what they stand for."""
        from_there = max(level, self.level)
        return sum(other.has(kept.positions) for kept in self._kept.values() if kept.level >= from_there) << from_there
