"""A broker of one file for tests of the client library: Endpoint(Broker) on one listener, and a hand on its throat."""

import asyncio
import contextlib
import time

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Bye, ByeReason, Data, Hello
from pleach.core.links.session import SessionConfig
from pleach.core.routing.router import RoutingConfig
from pleach.net.connection import Handlers, listen

WAIT_SECONDS_MAX = 100.0  # on a machine that has much else to do; a second, if it has not


class TinyBroker:
    def __init__(self, name="b", *, advertisements=False, window=1_024):
        self.name = name
        self.port = 0
        self.received = 0  # frames
        self.is_mute = False  # greets, and says nothing else
        self._config = RoutingConfig(advertisements=advertisements)
        self._session_config = SessionConfig(heartbeat=5.0, window=window)
        self._server = None
        self.connections = {}
        self.forget()

    def forget(self):
        """A new life without memory."""
        self.endpoint = Endpoint(Broker(self.name, self._config), time.time_ns(), self._session_config)

    @property
    def broker(self):
        return self.endpoint.machine

    @property
    def address(self):
        return f"pleach://127.0.0.1:{self.port}"

    async def __aenter__(self):
        await self.listen()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def listen(self):
        self._server = await listen("127.0.0.1", self.port, Handlers(self._frame, self._lost))
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()
        self.cut()
        await until(lambda: not self.connections)

    def cut(self):
        """Every connection ends in the middle of whatever it carries."""
        for connection in list(self.connections.values()):
            connection.abort("cut by the test")

    def _frame(self, connection, frame):
        self.received += 1
        peer = next((name for name, c in self.connections.items() if c is connection), None)
        if peer is None:
            if not isinstance(frame, Hello):
                return
            peer = frame.node
            self._accept(peer, connection, frame)
        self.endpoint.receive(peer, frame, now=time.monotonic())
        self.settle()

    def _accept(self, peer, connection, hello):
        assert hello.role == "client"
        old = self.connections.pop(peer, None)
        if old is not None:
            session = self.endpoint.sessions[peer]
            if hello.epoch > session.peer_epoch:
                old.send(Bye(ByeReason.FENCED, "a newer one is here"))
            old.close("replaced")
            self.endpoint.disconnected(peer)
        self.connections[peer] = connection
        self.endpoint.connected(peer, now=time.monotonic())

    def _lost(self, connection, reason):
        for peer in [name for name, c in self.connections.items() if c is connection]:
            del self.connections[peer]
            if peer in self.endpoint.sessions:
                self.endpoint.disconnected(peer)

    def settle(self):
        batch = self.endpoint.take_batch()
        for peer, frame in batch.transmits:
            if peer in self.connections and not (self.is_mute and isinstance(frame, Data)):
                self.connections[peer].send(frame)
        for peer, reason in batch.hangups:
            if peer in self.connections:
                self.connections[peer].close(reason)


async def until(condition, seconds=WAIT_SECONDS_MAX):
    """Wait for a condition, with a bound."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition belongs to code that knows no events
            await asyncio.sleep(0.005)


async def take(subscription, count, seconds=WAIT_SECONDS_MAX):
    """The next events, with a bound."""
    async with asyncio.timeout(seconds):
        return [await anext(subscription) for _ in range(count)]


@contextlib.asynccontextmanager
async def background(coroutine):
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
