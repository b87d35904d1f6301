"""Subscriptions as an application sees them, and which deliveries it has consumed.

payloads  1     2        3                   several messages in one payload: its number, and places in it
events    a  b  c  d  e  f  g   ✓ consumed by every subscription that got it
          ✓  ✓  ✓  ·  ✓  ·  ·   position: 1, and of the payload behind it 1 message; received 3

The position says how far the session may be confirmed to the broker.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.errors import ClientError, InvalidInputError

if TYPE_CHECKING:
    from pleach.client.client import Client

TURN_EVENTS_MAX = 128  # handed out before the event loop, and with it the connection, gets its turn

Callback: TypeAlias = Callable[[Event], Awaitable[None] | None]

log = logging.getLogger(__name__)


class Receipt(msgspec.Struct, gc=False):
    """One delivery. `copies` counts the subscriptions that have not consumed it."""

    number: int  # counts the deliveries of this client, over all epochs of its broker: the key on disk
    sequence: int  # of its payload in the session; 0: of a session that is over
    place: int  # in its payload
    event: Event
    copies: int
    is_kept: bool = False  # in the client's state file, so that the broker need not keep it


class Receipts:
    """The deliveries of one session. `waiting`: copies that are not consumed. `forgotten`: kept events to delete."""

    def __init__(self, received: int = 0, skip: int = 0) -> None:
        """`skip`: messages of the next payload that a former process has consumed."""
        self.waiting = 0
        self.forgotten: list[int] = []
        self._received = received
        self._places = 0  # how many messages of the payload `received` are here
        self._skip = skip
        self._number = 0
        self._open: deque[Receipt] = deque()  # in order; consumed ones leave once nothing before them is open

    def __iter__(self) -> Iterator[Receipt]:
        return (receipt for receipt in self._open if receipt.copies)

    @property
    def received(self) -> int:
        return self._received

    @property
    def position(self) -> tuple[int, int]:
        """A payload up to which all is consumed or kept here, and how many messages of the next one are, too."""
        for receipt in self._open:
            if receipt.copies and receipt.sequence and not receipt.is_kept:
                return receipt.sequence - 1, receipt.place
        return self._received, 0 if self._places else self._skip

    def is_new(self, sequence: int) -> bool:
        """Count the next message of a payload; False if a former process has consumed it."""
        if sequence != self._received:
            if self._places:
                self._skip = 0
            self._received, self._places = sequence, 0
        self._places += 1
        return self._places > self._skip

    def arrived(self, event: Event, copies: int) -> Receipt:
        """The message that `is_new` was last asked about is a delivery."""
        self._number += 1
        self.waiting += copies
        receipt = Receipt(self._number, self._received, self._places - 1, event, copies)
        self._open.append(receipt)
        return receipt

    def recalled(self, number: int, event: Event, copies: int) -> Receipt:
        """An event that a former process kept."""
        self._number = number
        self.waiting += copies
        receipt = Receipt(number, 0, 0, event, copies, is_kept=True)
        self._open.append(receipt)
        return receipt

    def consumed(self, receipt: Receipt) -> bool:
        """One subscription has consumed its copy; True if it was the last one."""
        assert receipt.copies > 0, "consumed twice"
        receipt.copies -= 1
        self.waiting -= 1
        if not receipt.copies and receipt.is_kept:
            self.forgotten.append(receipt.number)
        while self._open and not self._open[0].copies:
            self._open.popleft()
        return receipt.copies == 0

    def restart(self, received: int) -> None:
        """A new session begins: what is open belongs to the former one, and confirms nothing any more."""
        self._received, self._places, self._skip = received, 0, 0
        for receipt in self._open:
            receipt.sequence = 0


class Subscription:
    """Made by `Client.subscribe`. `async for event in subscription` ends when it is unsubscribed or the client closed.

    An event is consumed when the next one is asked for; with `manual_ack`, when `ack(event)` is called.
    """

    def __init__(self, name: str, wanted: Filter, client: Client) -> None:
        self.name = name
        self.filter = wanted
        self.effective = wanted  # what the client's right leaves of it
        self.manual_ack = False
        self._client = client
        self._queue: deque[Receipt] = deque()
        self._in_hand: dict[EventId, Receipt] = {}  # handed out, not consumed
        self._waiting: list[asyncio.Future[None]] = []  # an asyncio.Event would take a system call to set
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_ended = False
        self._is_released = False  # unsubscribed: what is queued counts as consumed
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
        """Consume an event; once this returns, a client with a `state_dir` will not get it again."""
        receipt = self._in_hand.pop(event.id, None)
        if receipt is None and self._is_released:
            return
        if receipt is None:
            raise InvalidInputError(f"{event.id} is not waiting for an ack: it was not handed out, or is acknowledged")
        self._client.consume(receipt)
        await self._client.settled()

    async def unsubscribe(self) -> None:
        """End the subscription; returns once nothing more is delivered for it. What is queued can still be read."""
        await self._client.unsubscribe(self)

    # What the client does ------------------------------------------------------------------------------------

    def put(self, receipt: Receipt) -> None:
        self._queue.append(receipt)
        if self._waiting:
            self._wake()

    def narrowed(self, effective: Filter | None) -> None:
        """The filter in effect; None: the one that was asked for."""
        if effective is not None and effective != self.effective:
            log.warning("subscription %s is narrowed to what the client may see: %s", self.name, effective.text)
        self.effective = effective or self.filter

    def end(self, error: ClientError | None = None) -> None:
        self._has_ended = True
        self._error = self._error or error
        self._wake()

    def close(self) -> None:
        """Count what was handed out as consumed, unless the application acknowledges events itself."""
        if not self.manual_ack:
            self._consume_all_in_hand()

    def release(self) -> None:
        """Count all events of this subscription as consumed."""
        self._consume_all_in_hand()
        for receipt in self._queue:
            self._client.consume(receipt)
        self._is_released = True

    async def _change(self) -> None:
        """Return when an event was put, or the subscription has ended."""
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
            self._client.consume(receipt)


async def call_for_each(subscription: Subscription, callback: Callback) -> None:
    """Call for one event after the other. An exception of the callback is logged, and the event counts as consumed."""
    try:
        async for event in subscription:
            try:
                answer = callback(event)
                if answer is not None and inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("the callback of %s failed for event %s", subscription.name, event.id)
    except ClientError as error:
        log.warning("subscription %s ended: %s", subscription.name, error)
