"""A proxy in the link between two processes: it adds latency, and can cut, heal and slow down the link.

    dialler ──TCP──▶ proxy ──TCP──▶ target

Bytes are passed on in order, each chunk after a random delay. A cut ends the connections and refuses new ones; what was
under way is lost, and the sessions at both ends repair it.

A `Front` is the advertised address of a broker: it reads the Hello of a connection, and passes it to the link between
the two nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple, TypeAlias

from pleach.core.links.frames import FrameReader, Hello
from pleach.core.messages import Node
from pleach.errors import FrameError
from pleach.net.connection import end_listening

CHUNK_BYTES = 65_536
HELLO_BYTES_MAX = 4_096
HELLO_SECONDS_MAX = 5.0
PENDING_BYTES_MAX = 4 * 1_048_576  # under way in one direction; then the sender waits


Place: TypeAlias = tuple[str, int]


class Half(NamedTuple):
    """One of the two connections that a proxy joins."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Listener:
    """A port on this machine, and the tasks that serve its connections. While it is closed it refuses new ones."""

    def __init__(self) -> None:
        self.address: Place = ("", 0)
        self._is_closed = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def stop(self) -> None:
        self._close()
        if self._server:
            await end_listening([self._server])
            await self._server.wait_closed()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _close(self) -> None:
        self._is_closed = True
        for connection in self._connections:
            connection.cancel()

    @contextlib.contextmanager
    def _connection(self, half: Half) -> Iterator[None]:
        """The current task serves this connection, which ends with the block."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            yield
        except (OSError, EOFError, FrameError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            half.writer.transport.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class LinkProxy(_Listener):
    def __init__(self, target: Place, latency: tuple[float, float], seed: str) -> None:
        super().__init__()
        self.target = target
        self.latency = latency
        self._rng = Random(seed)

    def cut(self) -> None:
        self._close()

    def heal(self) -> None:
        self._is_closed = False

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.carry(Half(reader, writer), self.target)

    async def carry(self, half: Half, target: Place, first: bytes = b"") -> None:
        """Relay a connection until it ends. `first`: what was read of it already."""
        with self._connection(half):
            if not self._is_closed:
                await self._relay(half, target, first)

    async def _relay(self, half: Half, target: Place, first: bytes) -> None:
        reader, writer = half
        there_reader, there_writer = await asyncio.open_connection(*target)
        there_writer.write(first)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_Pipe(self, reader, there_writer).run())
                both.create_task(_Pipe(self, there_reader, writer).run())
        except* OSError:
            pass
        finally:
            there_writer.transport.abort()

    def draw_latency(self) -> float:
        low, high = self.latency
        return self._rng.uniform(low, high)


class Front(_Listener):
    """`link_of`: the link of the node that says Hello, and its target address."""

    def __init__(self, link_of: Callable[[Node], tuple[LinkProxy, Place]]) -> None:
        super().__init__()
        self._link_of = link_of

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        half = Half(reader, writer)
        with self._connection(half):
            if self._is_closed:
                return
            async with asyncio.timeout(HELLO_SECONDS_MAX):
                first, hello = await _read_hello(reader)
            link, target = self._link_of(hello.node)
            await link.carry(half, target, first)


async def _read_hello(reader: asyncio.StreamReader) -> tuple[bytes, Hello]:
    head = await reader.readexactly(4)
    length = int.from_bytes(head)
    if length > HELLO_BYTES_MAX:
        raise FrameError(f"a first frame of {length:,} bytes is not a Hello")
    first = head + await reader.readexactly(length)
    for frame in FrameReader().feed(first):
        if isinstance(frame, Hello):
            return first, frame
    raise FrameError("the first frame is not a Hello")


class _Pipe:
    """One direction: a reader that gives each chunk a due time, and a writer that waits for it."""

    def __init__(self, proxy: LinkProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PENDING_BYTES_MAX // CHUNK_BYTES)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read())
            both.create_task(self._write())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        last = 0.0
        while data := await self._reader.read(CHUNK_BYTES):
            last = max(last, loop.time() + self._proxy.draw_latency())
            await self._due.put((last, data))
        await self._due.put((last, b""))

    async def _write(self) -> None:
        """Ends the pipe with an error once the other side has ended, so that both directions end together."""
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._due.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                with contextlib.suppress(OSError):
                    self._writer.write_eof()
                raise ConnectionResetError("the other side has ended")
            self._writer.write(data)
            await self._writer.drain()
