"""The alarm of a node: a timer of the loop that fires when the first timer of its machine is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pleach.core.links.endpoint import Endpoint


class Alarm:
    """`touch`: to be called when something has happened at the endpoint."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float], touch: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._touch = touch
        self._is_over = False
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """To be called whenever timers may have changed."""
        due = self._endpoint.upkeep.next_due
        self._cancel()
        if due is not None and not self._is_over:
            self._handle = asyncio.get_running_loop().call_later(max(0.0, due - self._clock()), self._fire)

    def end(self) -> None:
        """It does not fire any more."""
        self._is_over = True
        self._cancel()

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._endpoint.fire(now=self._clock())
        self._touch()
