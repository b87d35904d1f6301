"""The blocking client, for scripts without asyncio: the same client, on an event loop in a thread of its own.

    with blocking.Client("pleach://localhost:7000") as client:
        client.publish({"topic": "t", "price": 5})
        for event in client.subscribe("topic = 't'"):
            ...

Every call blocks until it has ended, or until `timeout` seconds have passed (TimeoutError).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from pleach.client import client as asynchronous
from pleach.client.connect import connect
from pleach.client.subscription import Subscription
from pleach.core.events.event import Event, EventId, Value
from pleach.core.events.filter import Filter
from pleach.errors import ClientClosedError

Answer = TypeVar("Answer")


class BlockingClient:
    """Takes the arguments of `pleach.connect` and connects at once; `close` it, or use it in a `with` block."""

    def __init__(self, addresses: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pleach client", daemon=True)
        self._thread.start()
        try:
            self._client = self.call(_made(addresses, options))
        except BaseException:
            self._end_loop()
            raise
        self.name = self._client.name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(consume=kind is None)

    def publish(
        self, attributes: Mapping[str, Value], payload: bytes = b"", *, timeout: float | None = None
    ) -> EventId:
        return self.call(self._client.publish(attributes, payload), timeout)

    def subscribe(self, wanted: str | Filter, *, timeout: float | None = None, **options: Any) -> BlockingSubscription:
        return BlockingSubscription(self, self.call(self._client.subscribe(wanted, **options), timeout))

    def advertise(self, advertised: str | Filter, *, timeout: float | None = None) -> str:
        return self.call(self._client.advertise(advertised), timeout)

    def unadvertise(self, name: str, *, timeout: float | None = None) -> None:
        self.call(self._client.unadvertise(name), timeout)

    def close(self, *, consume: bool = True) -> None:
        if self._loop.is_closed():
            return
        try:
            self.call(self._client.close(consume=consume))
        finally:
            self._end_loop()

    def call(self, coroutine: Coroutine[Any, Any, Answer], timeout: float | None = None) -> Answer:
        """Run a coroutine on the client's loop; after a timeout it is cancelled there."""
        if self._loop.is_closed():
            coroutine.close()
            raise ClientClosedError("the client is closed")
        future: Future[Answer] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Client = BlockingClient  # the name that applications use: blocking.Client


class BlockingSubscription:
    """An iterator of events. An event is consumed when the next one is asked for."""

    def __init__(self, client: BlockingClient, inner: Subscription) -> None:
        self.name = inner.name
        self.filter = inner.filter
        self._client = client
        self._inner = inner

    @property
    def effective(self) -> Filter:
        """What the client's right leaves of the filter."""
        return self._inner.effective

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None after the last one. A TimeoutError changes nothing."""
        return self._client.call(self._inner.next(), timeout)

    def ack(self, event: Event) -> None:
        self._client.call(self._inner.ack(event))

    def unsubscribe(self, *, timeout: float | None = None) -> None:
        self._client.call(self._inner.unsubscribe(), timeout)


async def _made(addresses: str, options: Mapping[str, Any]) -> asynchronous.Client:
    """Make the client on its loop, which it belongs to."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(addresses, **options))
        stack.pop_all()  # stays open; `close` ends it
        return client
