"""Events that a publisher has under way: how many there may be, and who waits for which confirmation."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from pleach.core.events.event import EventId
from pleach.errors import ClientError


class InFlight:
    """A window, and a future for each event in it. Who waits for room is served in turn."""

    def __init__(self, window: int) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = window
        self._waiting: deque[asyncio.Future[None]] = deque()  # empty wherever there is room
        self._sent: dict[int, tuple[EventId, asyncio.Future[EventId]]] = {}  # by sequence: one publisher, one count

    @property
    def ids(self) -> Sequence[EventId]:
        return [event_id for event_id, _ in self._sent.values()]

    @property
    def futures(self) -> Sequence[asyncio.Future[EventId]]:
        return [future for _, future in self._sent.values()]

    def __bool__(self) -> bool:
        return bool(self._sent)

    # Room ----------------------------------------------------------------------------------------------------

    def try_enter(self) -> bool:
        if self._free:
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

    # Confirmations -------------------------------------------------------------------------------------------

    def sent(self, event_id: EventId) -> asyncio.Future[EventId]:
        """An event that has room is on its way."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()  # once: before Python 3.12 it is a system call each time
        future: asyncio.Future[EventId] = self._loop.create_future()
        self._sent[event_id.sequence] = (event_id, future)
        return future

    def confirmed(self, last: int, count: int) -> None:
        """So many events, up to this one; those of a former process nobody waits for."""
        answered = 0
        for sequence in range(last - count + 1, last + 1):
            found = self._sent.pop(sequence, None)
            if found is None:
                continue
            answered += 1
            event_id, future = found
            if not future.done():  # else cancelled by the application; the event is published all the same
                future.set_result(event_id)
        self.leave(answered)

    def failed(self, event_id: EventId, error: ClientError) -> None:
        found = self._sent.pop(event_id.sequence, None)
        if found is None:
            return
        self.leave()
        if not found[1].done():
            found[1].set_exception(error)
