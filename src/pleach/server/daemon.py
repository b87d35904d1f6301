"""A broker process: listeners, neighbours that are dialled, ticks, signals. The broker itself is in node.py.

SIGTERM, SIGINT   stop accepting, commit, say goodbye, exit 0; a second one exits at once
                  in a ring: leave the tree before, for good
SIGHUP            read the file again, and take over what a running broker can
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from pleach.core.links.frames import FRAME_BYTES_MAX, Aside, Bye, ByeReason, Data, Frame, Hello, Probe
from pleach.core.links.reading import READER
from pleach.core.messages import Node
from pleach.errors import PleachError, SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.net.connection import Connection, Handlers, Statistics, end_listening, listen, open_connection
from pleach.server.admission import Port
from pleach.server.bugs import end_on_bugs, watched
from pleach.server.council import Council
from pleach.server.dialling import Dialling
from pleach.server.distances import ANSWER, METER
from pleach.server.http.page import Mount
from pleach.server.http.server import AdminServer, site_of
from pleach.server.logs import set_log_level
from pleach.server.node import BrokerNode
from pleach.server.opening import open_store
from pleach.server.probes import Probes
from pleach.server.readers import Readers
from pleach.server.ring.member import RingMember
from pleach.server.settings import RELOADABLE, BrokerSettings

DIAL_TIMEOUT_SECONDS = 5.0
STOP_SECONDS_MAX = 10.0  # for the last commit and the goodbyes
TICKS_PER_HEARTBEAT = 2
HEARING_SECONDS = 0.001
EXIT_FORCED = 1
PEER_FRAME_BYTES_MAX = (
    256 * 1_048_576
)  # a testimony (core/overlay/healing/stand_in.py) has all that a dead broker did not confirm

log = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[str, int], Awaitable[asyncio.Server]]


class BrokerReady(NamedTuple):
    """Where a broker listens."""

    name: Node
    client: str
    peer: str
    admin: str
    durable: bool


class Daemon:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        reload: Callable[[], BrokerSettings],
        on_ready: Callable[[BrokerReady], None],
        mounts: Mapping[str, Mount] | None = None,
    ) -> None:
        """`mounts`: what else the operators' port shows."""
        self._reload = reload
        self._mounts = mounts
        self._on_ready = on_ready
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._is_fatal = False
        self._is_asked_to_stop = False
        store, epoch = open_store(settings)
        self.node = BrokerNode(settings, store, epoch, clock=time.monotonic, on_fatal=self._fatal)
        self._ring = self.node.ring = RingMember(self.node, settings.ring) if settings.ring else None
        self._probes = Probes(self.node, number=time.time_ns())
        self._readers = Readers(self.node)
        self._council = Council(self.node, settings.improve) if settings.improve else None
        self._servers: list[asyncio.Server] = []
        self._known: dict[Connection, Node] = {}  # connections whose peer has said Hello, or was dialled
        self._strangers: dict[Connection, None] = {}
        self._meters: set[Connection] = set()  # of brokers that only measure how far it is to here
        self._all_gone = asyncio.Event()
        self._gone = Statistics()  # the traffic of connections that are no more
        self._dialling = Dialling(self.node.directory, self.node.links, self._dial)

    async def run(self) -> int:
        """Until a signal or a failure ends it; returns the exit code."""
        end_on_bugs(asyncio.get_running_loop())
        self._install_signals()
        ready = await self._listen()
        self.node.directory.listens_at(ready.client, ready.peer, ready.admin)
        self.node.on_directory_change = self._dialling.follow
        self.node.leaving.on_end = self._end_removed
        self._dialling.follow()
        self.node.guardian.host.resume()
        ticking = watched(self._keep_ticking())
        if self._ring is None:
            self._on_ready(ready)
        else:
            self._ring.start(ready.peer, partial(self._on_ready, ready), self._stop.set)
        await self._stop.wait()
        if self._ring is not None:
            self._ring.close()
        ticking.cancel()
        self._dialling.end()
        if self._council is not None:
            await self._council.close()
        if not self._is_fatal:
            await self.node.guardian.host.stop()
            await self._leave()
            self.node.close()
        if self._ring is not None and self._ring.refusal is not None:
            raise self._ring.refusal
        return self._exit_code

    # Listening -----------------------------------------------------------------------------------------------

    async def _listen(self) -> BrokerReady:
        settings, node = self.node.settings, self.node
        admin = AdminServer(site_of(node, self._count_traffic, self._mounts))
        clients = await self._open("client_listen", settings.client_listen, self._listener(Port.CLIENTS))
        peers = await self._open("peer_listen", settings.peer_listen, self._listener(Port.PEERS))
        operators = await self._open("admin_listen", settings.admin_listen, admin.listen)
        if not node.is_durable:
            log.warning("in memory only: what is under way is lost when this process ends (give --data-dir to keep it)")
        return BrokerReady(node.name, clients, peers, operators, node.is_durable)

    def _listener(self, door: Port) -> Listener:
        frame, largest = partial(self._frame, door), self._largest(door)
        handlers = Handlers(frame, self._lost, self._made, on_data=self._data, frame_bytes_max=largest)
        return lambda host, port: listen(host, port, handlers)

    def _largest(self, door: Port) -> int:
        is_healing = self.node.settings.heal is not None
        return PEER_FRAME_BYTES_MAX if is_healing and door is Port.PEERS else FRAME_BYTES_MAX

    async def _open(self, key: str, text: str, listener: Listener) -> str:
        """Open a port; returns the address that it has."""
        address = parse_address(text, key=key)
        try:
            server = await listener(address.host, address.port)
        except OSError as error:
            raise SettingsError(key, f"{text}: {error.strerror}", "give an address that is free and ours") from None
        self._servers.append(server)
        host, port, *_ = server.sockets[0].getsockname()
        return str(Address(host, port))

    def _made(self, connection: Connection) -> None:
        """Where there are too many strangers the oldest goes: whoever means it says Hello at once."""
        if self._stop.is_set():
            connection.abort("stopping")
            return
        self._strangers[connection] = None
        if len(self._strangers) > self.node.settings.limits.strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            self._send_away(oldest, "too many connections that have not said Hello")

    def _frame(self, door: Port, connection: Connection, frame: Frame) -> None:
        peer = self._known.get(connection)
        if peer is not None and isinstance(frame, Probe):
            self._probes.heard(peer, frame, time.monotonic())
        elif peer is not None and isinstance(frame, Aside):
            if self._council is not None:
                self._council.heard(peer, frame)
        elif peer is not None:
            self.node.receive(peer, connection, frame)
        elif connection in self._readers:
            self._readers.heard(connection, frame, time.monotonic())
        elif isinstance(frame, Hello) and frame.role == READER and door is Port.CLIENTS:
            self._reader(connection, frame)
        elif isinstance(frame, Hello) and frame.role == METER and door is Port.PEERS:
            self._meters.add(connection)
            connection.send(ANSWER)
            connection.close("measured")
        elif isinstance(frame, Hello):
            self._hello(door, connection, frame)
        else:
            self._send_away(connection, f"{type(frame).__name__} instead of Hello")

    def _data(self, connection: Connection, frames: list[Data]) -> None:
        peer = self._known.get(connection)
        if peer is None:
            self._send_away(connection, "Data instead of Hello")
        else:
            self.node.receive_data(peer, connection, frames)

    def _hello(self, door: Port, connection: Connection, hello: Hello) -> None:
        reason = self._probes.why_closed(hello.node)
        if reason:
            connection.send(Bye(ByeReason.REFUSED, reason))
            connection.close(reason)
        else:
            reason = self.node.accept(connection, hello, door)
        if reason:
            log.warning("refused %s on the %s port: %s", connection.peername, door.value, reason)
            return  # still a stranger: `_lost` counts it
        self._strangers.pop(connection, None)
        self._known[connection] = hello.node
        self._dialling.note(hello.node)
        log.info("%s %s is connected from %s", door.value, hello.node, connection.peername)

    def _reader(self, connection: Connection, hello: Hello) -> None:
        reason = self._readers.admit(connection, hello, time.monotonic())
        if reason:
            log.warning("refused %s as a reader of %s: %s", connection.peername, hello.node, reason)
        else:
            self._strangers.pop(connection, None)

    def _send_away(self, connection: Connection, reason: str) -> None:
        log.warning("connection with %s ended: %s", connection.peername, reason)
        connection.abort(reason)

    def _lost(self, connection: Connection, reason: str) -> None:
        _add(self._gone, connection.statistics)
        if connection in self._readers:
            self._readers.lost(connection)
            return
        peer = self._known.pop(connection, None)
        if peer is None:
            self._strangers.pop(connection, None)
            self.node.counters.strangers_closed += connection not in self._meters
            self._meters.discard(connection)
            return
        if not self._known:
            self._all_gone.set()
        log.info("connection with %s ended: %s", peer, reason)
        self.node.lost(peer, connection)
        self._dialling.note(peer)

    def _count_traffic(self) -> None:
        total = Statistics()
        for statistics in (self._gone, *(connection.statistics for connection in (*self._known, *self._strangers))):
            _add(total, statistics)
        counters = self.node.counters
        counters.frames_in, counters.frames_out = total.frames_received, total.frames_sent
        counters.bytes_in, counters.bytes_out = total.bytes_received, total.bytes_sent

    # Dialling ------------------------------------------------------------------------------------------------

    async def _dial(self, peer: Node, known: str) -> bool:
        if self._probes.why_closed(peer):
            return False
        try:
            address = parse_address(known, key=f"peers.{peer}")
            async with asyncio.timeout(DIAL_TIMEOUT_SECONDS):
                frame, largest = partial(self._frame, Port.PEERS), self._largest(Port.PEERS)
                handlers = Handlers(frame, self._lost, on_data=self._data, frame_bytes_max=largest)
                connection = await open_connection(address.host, address.port, handlers)
        except (OSError, TimeoutError, SettingsError) as error:
            log.debug("%s does not answer: %s", peer, error)
            return False
        if connection.is_closing:  # it was lost before we knew of it
            return False
        self._known[connection] = peer
        self.node.dialled(peer, connection)
        self._dialling.note(peer)
        return True

    async def _keep_ticking(self) -> None:
        while True:
            pause = self.node.settings.heartbeat / TICKS_PER_HEARTBEAT
            due = time.monotonic() + pause
            await asyncio.sleep(pause)
            if time.monotonic() > due + pause:  # we were held up: first hear who has spoken meanwhile
                await asyncio.sleep(HEARING_SECONDS)
            self.node.tick()
            self._probes.tick(time.monotonic())
            if self._council is not None:
                self._council.tick()
            self._readers.tick(time.monotonic())

    # Signals and the end -------------------------------------------------------------------------------------

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_reload)

    def _asked_to_stop(self) -> None:
        if self._stop.is_set() or self._is_asked_to_stop:
            os._exit(EXIT_FORCED)
        log.info("stopping")
        self._is_asked_to_stop = True
        if self._ring is None or not self._ring.leaves(self._stop.set):
            self._stop.set()

    def _asked_to_reload(self) -> None:
        try:
            wanted = self._reload()
        except PleachError as error:
            log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - the sentence says it all
            return
        current = self.node.settings
        applied, waiting = _differences(current, wanted)
        taken = [key for key in RELOADABLE if getattr(applied, key) != getattr(current, key)]
        self.node.apply(applied)
        set_log_level(applied.log_level)
        self._dialling.follow()
        later = f"; after a restart: {', '.join(waiting)}" if waiting else ""
        log.info("settings read again; taken over: %s%s", ", ".join(taken) or "nothing", later)

    def _end_removed(self) -> None:
        if not self._stop.is_set():
            log.info("%s is out of the tree, and its clients are served elsewhere: this process ends", self.node.name)
            self._stop.set()

    def _fatal(self, code: int, reason: str) -> None:
        log.critical("%s", reason)
        self._exit_code, self._is_fatal = code, True
        self._stop.set()

    async def _leave(self) -> None:
        await end_listening(self._servers)
        for connection in list(self._strangers):
            connection.abort("stopping")
        self._readers.end(f"{self.node.name} is stopping")
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                self._all_gone.clear()
                await self.node.leave(f"{self.node.name} is stopping")
                if self._known:
                    await self._all_gone.wait()
        except TimeoutError:
            log.warning("not everybody took the goodbye within %g s", STOP_SECONDS_MAX)


def _differences(current: BrokerSettings, wanted: BrokerSettings) -> tuple[BrokerSettings, list[str]]:
    """The settings to go on with, and the keys whose new values have to wait for a restart."""
    changed = [k for k in current.__struct_fields__ if getattr(current, k) != getattr(wanted, k)]
    waiting = [k for k in changed if k not in RELOADABLE]
    values = {k: getattr(wanted if k in RELOADABLE else current, k) for k in current.__struct_fields__}
    if current.peers.keys() != wanted.peers.keys():  # addresses may change, the tree may not
        values["peers"] = {peer: wanted.peers.get(peer, address) for peer, address in current.peers.items()}
        waiting.append("peers")
    return BrokerSettings(**values), waiting


def _add(total: Statistics, more: Statistics) -> None:
    for field in Statistics.__struct_fields__:
        setattr(total, field, getattr(total, field) + getattr(more, field))
