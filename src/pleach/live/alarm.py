"""The one alarm of a node: it rings when the first of its machine's timers is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    def __init__(self, clock: Callable[[], float], ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, due: float | None) -> None:
        """Ring at this time of the clock, and at no other; None: not at all."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if due is not None:
            self._handle = asyncio.get_running_loop().call_later(max(0.0, due - self._clock()), self._ring)
