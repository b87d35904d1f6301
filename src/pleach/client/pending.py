"""Calls of a client that wait for its broker: published events (`InFlight`) and requests (`PendingRequests`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from pleach.core.events.event import EventId
from pleach.core.messages import Advertised, Layer, Message, Subscribed, Unadvertised, Unsubscribed
from pleach.errors import AdvertiseRefusedError, ClientError, RefusedError, SubscribeRefusedError

REFUSALS: dict[type[Message], type[RefusedError]] = {
    Subscribed: SubscribeRefusedError,
    Unsubscribed: SubscribeRefusedError,
    Advertised: AdvertiseRefusedError,
    Unadvertised: AdvertiseRefusedError,
}
LAYERS: dict[type[RefusedError], Layer] = {
    SubscribeRefusedError: Layer.SUBSCRIPTIONS,
    AdvertiseRefusedError: Layer.ADVERTISEMENTS,
}


class InFlight:
    """A window of published events, with a future for each until it is confirmed. Callers enter in order of arrival."""

    def __init__(self, window: int) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = window
        self._waiting: deque[asyncio.Future[None]] = deque()  # callers, while the window is full
        self._sent: dict[int, tuple[EventId, asyncio.Future[EventId]]] = {}  # by sequence number

    @property
    def ids(self) -> Sequence[EventId]:
        return [event_id for event_id, _ in self._sent.values()]

    @property
    def futures(self) -> Sequence[asyncio.Future[EventId]]:
        return [future for _, future in self._sent.values()]

    def __bool__(self) -> bool:
        return bool(self._sent)

    # The window ----------------------------------------------------------------------------------------------

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
                self.leave()  # it was admitted, and is gone
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
        """Note an event that entered the window and was sent."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()  # once: before Python 3.12 it is a system call each time
        future: asyncio.Future[EventId] = self._loop.create_future()
        self._sent[event_id.sequence] = (event_id, future)
        return future

    def confirmed(self, last: int, count: int) -> None:
        """`count` events up to number `last` are confirmed; nobody waits for those of a former process."""
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


class PendingRequests:
    """Requests by kind and name; equal requests that wait at the same time share one answer."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[type[Message], str], asyncio.Future[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def futures(self) -> Sequence[asyncio.Future[None]]:
        return list(self._waiting.values())

    def is_waiting(self, kind: type[Message], name: str) -> bool:
        return (kind, name) in self._waiting

    def asked(self, kind: type[Message], name: str) -> asyncio.Future[None]:
        """A future for the answer, to be shielded: others may wait for it, too."""
        future = self._waiting.get((kind, name))
        if future is None:
            future = self._waiting[kind, name] = asyncio.get_running_loop().create_future()
        return future

    def answer(self, kind: type[Message], name: str, error: ClientError | None = None) -> bool:
        """False if nobody waits for it."""
        future = self._waiting.pop((kind, name), None)
        if future is None or future.done():
            return future is not None
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # retrieved: a call that was cancelled does not await it
        return True

    def refuse(self, name: str, reason: str, layer: Layer | None) -> bool:
        """`layer`: that the name belongs to. The message does not say which request it refuses; one waits at a time.

        False if none does.
        """
        refused = [kind for kind, error in REFUSALS.items() if layer in (None, LAYERS[error])]
        answered = [self.answer(kind, name, REFUSALS[kind](name, reason)) for kind in refused]
        return any(answered)

    def answer_all(self, *kinds: type[Message]) -> None:
        for kind, name in [each for each in self._waiting if each[0] in kinds]:
            self.answer(kind, name)

    def fail_all(self, error: ClientError) -> None:
        for kind, name in list(self._waiting):
            self.answer(kind, name, error)
