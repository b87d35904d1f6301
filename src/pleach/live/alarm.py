"""The one alarm of a node: it rings when the first of its machine's timers is due.

A process that was held up rings late, and so may everyone else: before it acts on what it has not heard, it listens for
a while. That matters to leases, which would take a late renewal for a missing one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pleach.links.endpoint import Endpoint


class Alarm:
    """`touch`: to be called when something has happened at the endpoint. `patience`: how late it may ring, and how
    long it listens if it is later than that."""

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float],
        touch: Callable[[], None],
        *,
        patience: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._touch = touch
        self._patience = patience
        self._not_before = 0.0
        self._is_over = False
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """To be called whenever timers may have changed."""
        due = self._endpoint.upkeep.next_due
        self._cancel()
        if due is not None and not self._is_over:
            due = max(due, self._not_before)
            delay = max(0.0, due - self._clock())
            self._handle = asyncio.get_running_loop().call_later(delay, self._ring, due)

    def end(self) -> None:
        """It does not ring any more."""
        self._is_over = True
        self._cancel()

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self, due: float) -> None:
        now, patience = self._clock(), self._patience()
        if now - due > patience:
            self._not_before = now + patience
            self.set()
            return
        self._endpoint.fire(now=now)
        self._touch()
