"""One subscription, as an application sees it: an asynchronous iterator of events."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol, Self

from pleach.client.receipts import Receipt
from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.errors import ClientError, InvalidInputError

TURN_EVENTS_MAX = 128  # handed out at a stretch; then the event loop gets its turn, and with it the connection


class SubscriptionOwner(Protocol):
    """The client, as its subscriptions see it."""

    def consume(self, receipt: Receipt) -> None: ...

    async def settled(self) -> None:
        """Returns once what was consumed is on disk, where there is one."""
        ...

    async def unsubscribe(self, subscription: Subscription) -> None: ...


class Subscription:
    """Made by `Client.subscribe`. `async for event in subscription` ends when it is unsubscribed or the client closed.

    An event is consumed when the next one is asked for; with `manual_ack`, when `ack(event)` is called.
    """

    def __init__(self, name: str, wanted: Filter, owner: SubscriptionOwner) -> None:
        self.name = name
        self.filter = wanted
        self.manual_ack = False
        self._owner = owner
        self._queue: deque[Receipt] = deque()
        self._in_hand: dict[EventId, Receipt] = {}  # handed out, not consumed
        self._waiting: list[asyncio.Future[None]] = []  # an asyncio.Event would take a system call to set
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_ended = False
        self._is_released = False  # ended by its own wish; what is queued is a present
        self._error: ClientError | None = None
        self._handed_out = 0

    @property
    def queued(self) -> int:
        """Events that wait to be asked for."""
        return len(self._queue)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._in_hand and not self.manual_ack:
            self._consume_all_in_hand()
        self._handed_out += 1
        if self._handed_out % TURN_EVENTS_MAX == 0:
            await asyncio.sleep(0)
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                raise StopAsyncIteration
            await self._change()
        receipt = self._queue.popleft()
        if not self._is_released:
            self._in_hand[receipt.event.id] = receipt
        return receipt.event

    async def next(self) -> Event | None:
        """The next event; None where the iteration is over."""
        return await anext(self, None)

    async def ack(self, event: Event) -> None:
        """The event is consumed; once this returns, a client with a `state_dir` will not get it again."""
        receipt = self._in_hand.pop(event.id, None)
        if receipt is None and self._is_released:
            return
        if receipt is None:
            raise InvalidInputError(f"{event.id} is not waiting for an ack: it was not handed out, or is acknowledged")
        self._owner.consume(receipt)
        await self._owner.settled()

    async def unsubscribe(self) -> None:
        """End the subscription; returns once nothing more is delivered for it. What is queued can still be read."""
        await self._owner.unsubscribe(self)

    # What the client does ------------------------------------------------------------------------------------

    def put(self, receipt: Receipt) -> None:
        self._queue.append(receipt)
        if self._waiting:
            self._wake()

    def end(self, error: ClientError | None = None) -> None:
        self._has_ended = True
        self._error = self._error or error
        self._wake()

    def close(self) -> None:
        """The application is through with what it has in hand, unless it wanted to say so itself."""
        if not self.manual_ack:
            self._consume_all_in_hand()

    def release(self) -> None:
        """Nobody need wait any longer for the events of this subscription to be consumed."""
        self._consume_all_in_hand()
        for receipt in self._queue:
            self._owner.consume(receipt)
        self._is_released = True

    async def _change(self) -> None:
        """Returns when something was put, or all is over."""
        self._loop = self._loop or asyncio.get_running_loop()
        change: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(change)
        try:
            await change
        except asyncio.CancelledError:
            with suppress(ValueError):  # it may have been woken in the same turn
                self._waiting.remove(change)
            raise

    def _wake(self) -> None:
        for change in self._waiting:
            if not change.done():
                change.set_result(None)
        self._waiting.clear()

    def _consume_all_in_hand(self) -> None:
        in_hand, self._in_hand = self._in_hand, {}
        for receipt in in_hand.values():
            self._owner.consume(receipt)
