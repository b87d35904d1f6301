"""How many events a publisher may have under way, unconfirmed."""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """As a semaphore, with room given back for many at once. Who waits is served in turn."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        if self._free and not self._waiting:
            self._free -= 1
            return True
        return False

    async def enter(self) -> None:
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was given room, and does not need it any more
            raise

    def leave(self, count: int = 1) -> None:
        self._free += count
        while self._free and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
