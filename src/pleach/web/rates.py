"""Rates from readings of counters, which restart from 0 with a process or a connection."""

from __future__ import annotations

from typing import TypeAlias

Key: TypeAlias = tuple[str, ...]


class Rates:
    def __init__(self) -> None:
        self._before: dict[Key, tuple[float, float]] = {}
        self._now: dict[Key, tuple[float, float]] = {}

    def of(self, key: Key, value: float, at: float) -> float:
        """Per second, since the reading before; 0 at the first one."""
        self._now[key] = (value, at)
        if key not in self._before:
            return 0.0
        last, since = self._before[key]
        grown = value - last if value >= last else value
        return round(grown / (at - since), 1) if at > since else 0.0

    def turn(self) -> None:
        """End a reading: forget counters that it did not contain."""
        self._before, self._now = self._now, {}
