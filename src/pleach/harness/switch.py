"""A switch between machines: all connections of a run pass it, with latency; links can be cut, held and slowed down.

    dialler ──TCP──▶ switch ──TCP──▶ target

The first line of a connection says who dials which address (net/dial.py): links are between machines, whatever runs
there. Bytes are passed on in order, each chunk after a random delay.

Rule 1: a cut ends connections and refuses new ones; what was under way is lost, and sessions at both ends repair it.
Rule 2: what a machine sends on a link that holds it waits, the ends of connections too. While either side is held no
        connection is made. It is what TCP makes of packets that are lost, for less time than TCP is patient.
Rule 3: a link that loses packets delays bytes, as TCP does that sends them again: packets of PACKET_BYTES wait for
        RESEND_SECONDS_MIN, and twice as long each time that they are lost again; whatever is behind waits likewise.
        Like a window that has collapsed, one packet is under way at a time. New connections are lost likewise.
Rule 4: an advertised address is one that a process keeps while its ports change; the switch knows where it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from random import Random
from typing import NamedTuple, TypeAlias, TypeVar

from pleach.core.messages import Node
from pleach.errors import SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.net.connection import end_listening
from pleach.net.dial import CONNECTED, LINE_BYTES_MAX, SwitchPort, switch_port

CHUNK_BYTES = 65_536
FIRST_LINE_SECONDS_MAX = 5.0
PENDING_BYTES_MAX = 4 * 1_048_576  # under way in one direction; then the sender waits
PACKET_BYTES = 1_460
RESEND_SECONDS_MIN, RESEND_SECONDS_MAX = 0.2, 120.0  # of a packet, as Linux does; of a connection's first one:
CONNECT_SECONDS_MIN = 1.0
MACHINES_PER_NETWORK = 250  # 127.0.1.1 to 127.0.1.250, then 127.0.2.1 …

Place: TypeAlias = tuple[str, int]
T = TypeVar("T")


class Half(NamedTuple):
    """One of the two connections that are joined, and the machine at its other end."""

    machine: Node
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Listener:
    """A port on this machine, and the tasks that serve its connections. Once it is closed it refuses new ones."""

    def __init__(self) -> None:
        self.address: Place = ("", 0)
        self._is_closed = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def stop(self) -> None:
        self._is_closed = True
        for connection in self._connections:
            connection.cancel()
        if self._server:
            await end_listening([self._server])
            await self._server.wait_closed()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self._is_closed:
                await self._serve(reader, writer)
        except (OSError, EOFError, SettingsError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Link:
    """All connections between two machines, whichever of them dialled."""

    def __init__(self, latency: tuple[float, float], seed: str) -> None:
        self.latency = latency
        self.loss = 0.0  # the share of packets that are lost (rule 3)
        self._rng = Random(seed)
        self._is_cut = False
        self._holds: Counter[Node] = Counter()  # by sender
        self._released = asyncio.Event()  # set when a sender is released, and replaced
        self._relays: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Rule 1."""
        self._is_cut = True
        for relay in self._relays:
            relay.cancel()

    def heal(self) -> None:
        self._is_cut = False

    def hold(self, sender: Node) -> None:
        """Rule 2. It is held until it is released as often."""
        self._holds[sender] += 1

    def release(self, sender: Node) -> None:
        self._holds[sender] -= 1
        released, self._released = self._released, asyncio.Event()
        released.set()

    async def until_released(self, *senders: Node) -> None:
        while any(self._holds[sender] > 0 for sender in senders):
            await self._released.wait()

    def draw_latency(self) -> float:
        low, high = self.latency
        return self._rng.uniform(low, high)

    def due(self, last: float, now: float, size: int) -> float:
        """When so many bytes are through; `last`: when those before them are."""
        through = max(last, now + self.draw_latency())
        packets = -(-size // PACKET_BYTES) if self.loss else 0
        return through + sum(self._draw_resends(RESEND_SECONDS_MIN) for _ in range(packets))

    def _draw_resends(self, first: float) -> float:
        """For how long a packet is sent again and again."""
        seconds, wait = 0.0, first
        while self._rng.random() < self.loss:
            seconds, wait = seconds + wait, min(2 * wait, RESEND_SECONDS_MAX)
        return seconds

    async def carry(self, half: Half, machine: Node, place: Place, *, answer: bytes = b"") -> None:
        """Connect with a machine, and relay until the connection ends. Raises OSError where it cannot.

        `answer`: what the dialler is told once it is connected.
        """
        if self._is_cut:
            return
        with self._carrying():
            await self._until_both_are_released(half, machine)
            await asyncio.sleep(self._draw_resends(CONNECT_SECONDS_MIN))
            there = Half(machine, *await asyncio.open_connection(*place))
            try:
                half.writer.write(answer)
                await self._relay(half, there)
            finally:
                there.writer.transport.abort()

    @contextlib.contextmanager
    def _carrying(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            yield
        finally:
            self._relays.discard(task)

    async def _until_both_are_released(self, half: Half, machine: Node) -> None:
        """Raises ConnectionResetError where the dialler gives up; it says nothing more before it is answered."""
        if not any(self._holds[sender] > 0 for sender in (half.machine, machine)):
            return
        ended = asyncio.create_task(half.reader.read(1))
        released = asyncio.create_task(self.until_released(half.machine, machine))
        try:
            await asyncio.wait([ended, released], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise ConnectionResetError("the dialler gave up")
        finally:
            for task in (ended, released):
                task.cancel()
            await asyncio.gather(ended, released, return_exceptions=True)

    async def _relay(self, here: Half, there: Half) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_Pipe(self, here, there).run())
                both.create_task(_Pipe(self, there, here).run())
        except* OSError:
            pass
        await asyncio.gather(self._end(here, there), self._end(there, here))

    async def _end(self, sender: Half, receiver: Half) -> None:
        await self.until_released(sender.machine)
        receiver.writer.transport.abort()


class _Pipe:
    """One direction: a reader that gives each chunk a due time, and a writer that waits for it."""

    def __init__(self, link: Link, sender: Half, receiver: Half) -> None:
        self._link = link
        self._sender = sender
        self._receiver = receiver
        self._due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PENDING_BYTES_MAX // CHUNK_BYTES)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read())
            both.create_task(self._write())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        last = 0.0
        while data := await self._sender.reader.read(CHUNK_BYTES):
            last = self._link.due(last, loop.time(), len(data))
            await self._due.put((last, data))
        await self._due.put((last, b""))

    async def _write(self) -> None:
        """Ends the pipe with an error once the other side has ended, so that both directions end together."""
        loop = asyncio.get_running_loop()
        writer = self._receiver.writer
        while True:
            due, data = await self._due.get()
            await asyncio.sleep(due - loop.time())
            await self._link.until_released(self._sender.machine)
            if not data:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                raise ConnectionResetError("the other side has ended")
            writer.write(data)
            await writer.drain()


class Switch(Listener):
    """`latency_of`: in seconds, between two nodes. `run`: the seed of whatever is random."""

    def __init__(self, latency_of: Callable[[Node, Node], tuple[float, float]], run: str) -> None:
        super().__init__()
        self._latency_of = latency_of
        self._run = run
        self._links: dict[tuple[Node, Node], Link] = {}
        self._hosts: dict[Node, str] = {}  # the address of each machine, without a port
        self._listening: dict[Address, Address] = {}  # by advertised address (rule 4)

    def host_of(self, machine: Node) -> str:
        """The loopback address of a machine, which is its own in this network."""
        if machine not in self._hosts:
            network, number = divmod(len(self._hosts), MACHINES_PER_NETWORK)
            self._hosts[machine] = f"127.0.{1 + network}.{1 + number}"
        return self._hosts[machine]

    def port_for(self, node: Node) -> SwitchPort:
        return SwitchPort(node, Address(*self.address))

    async def dialling_as(self, node: Node, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Make and enter something that dials through this switch, as this node."""
        context = copy_context()
        context.run(switch_port.set, self.port_for(node))
        made = context.run(make)
        return await asyncio.get_running_loop().create_task(_entered(made), context=context)

    def listens(self, advertised: Address, place: Address | None) -> None:
        """`place`: where a process listens that is advertised so; None: nowhere."""
        if place is None:
            self._listening.pop(advertised, None)
        else:
            self._listening[advertised] = place

    def link(self, a: Node, b: Node) -> Link:
        """The link between two nodes; a new one has the latency that the network gives it."""
        ends = (a, b) if a < b else (b, a)
        if ends not in self._links:
            self._links[ends] = Link(self._latency_of(*ends), f"{self._run}/{'-'.join(ends)}")
        return self._links[ends]

    def has_carried(self, a: Node, b: Node) -> bool:
        """Whether there has been a connection between them."""
        return (a, b) in self._links or (b, a) in self._links

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(FIRST_LINE_SECONDS_MAX):
            line = await reader.readline()
        dialler, _, text = line[:LINE_BYTES_MAX].decode().strip().rpartition(" ")
        target = parse_address(text, key="target")
        machine = next((each for each, host in self._hosts.items() if host == target.host), target.host)
        place = self._listening.get(target, target)
        await self.link(dialler, machine).carry(Half(dialler, reader, writer), machine, place, answer=CONNECTED)


async def _entered(made: AbstractAsyncContextManager[T]) -> T:
    return await made.__aenter__()
