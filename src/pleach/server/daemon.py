"""A broker process: listeners, connections, ticks, signals. The broker itself is in node.py.

SIGTERM, SIGINT   stop accepting, commit, say goodbye, exit 0; a second one exits at once
                  in a ring: leave the tree before, for good
SIGHUP            read the settings again, and apply those that a running broker can change
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from pleach.core.links.frames import ENQUIRY, STANDBY, TUNNEL, Bye, ByeReason, Data, Frame, Hello, Login
from pleach.core.links.reading import READER
from pleach.core.messages import Node
from pleach.errors import AccessError, PleachError, SettingsError, TlsError
from pleach.net.addresses import Address, parse_address
from pleach.net.connection import Connection, Handlers, end_listening, listen, open_connection
from pleach.net.enquiry import answer_enquiry
from pleach.net.own_tls import own_tls
from pleach.net.tls_layer import TlsSide
from pleach.net.tunnel import Relay, open_tunnel, wanted_tunnel
from pleach.server.bugs import end_on_bugs, watched
from pleach.server.connections import ConnectionRole, ConnectionTable, RoleKind
from pleach.server.distances import ANSWER, METER
from pleach.server.door.client_door import ClientDoor
from pleach.server.door.operator_door import OperatorDoor
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.feature import Feature
from pleach.server.http.routes import Route
from pleach.server.http.server import AdminServer, site_of
from pleach.server.links import Port
from pleach.server.logs import set_log_level
from pleach.server.node import EXIT_DEPOSED, BrokerNode
from pleach.server.opening import OpenedStore, open_store
from pleach.server.probes import Probes
from pleach.server.readers import Readers
from pleach.server.relay.tunnels import Tunnels
from pleach.server.ring.member import RingMember
from pleach.server.settings import RELOADABLE, BrokerSettings
from pleach.server.signals import on_signals
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.ticking import TICKS_PER_HEARTBEAT, keep_ticking

DIAL_TIMEOUT_SECONDS = 5.0
STOP_SECONDS_MAX = 10.0  # for the last commit and the goodbyes
EXIT_FORCED = 1

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
        routes: Sequence[Route] = (),
        seat: PrimarySeat | None = None,
        opened: OpenedStore | None = None,
    ) -> None:
        """`routes`: what else the admin port serves.

        `seat`: of a broker that has copies on other machines; `opened`: its store, if it is open already.
        """
        self._reload = reload
        self._routes = routes
        self._members = seat.links if seat is not None else None
        self._on_ready = on_ready
        self._stop = asyncio.Event()
        self._is_asked_to_stop = False
        self.is_stopped = False  # by a signal, and not only asked to leave the ring
        self._exit_code = 0  # others than 0: a failure, after which nothing is committed
        self._servers: list[asyncio.Server] = []
        self._all_gone = asyncio.Event()  # no peer is connected any more
        self.connections = ConnectionTable()
        store, epoch, view = opened or open_store(settings, seat)
        try:
            self.node = BrokerNode(
                settings,
                store,
                epoch,
                clock=time.monotonic,
                on_end=self._end,
                dial=self._dial,
                dial_through=self._dial_through,
                seat=seat,
            )
        except PleachError:  # settings that name unusable files, for example
            if store is not None:
                store.close()
            raise
        if view is not None:
            self.node.directory.view = view

    @property
    def _security(self) -> TransportSecurity | None:
        return self.node.features.get(TransportSecurity)

    async def run(self) -> int:
        """Until a signal or a failure ends it; returns the exit code."""
        end_on_bugs(asyncio.get_running_loop())
        on_signals(self._asked_to_stop, self._asked_to_reload)
        if self._security is not None:
            own_tls.set(self._security.dialling)
        features, ring = self.node.features, self.node.features.get(RingMember)
        ready = await self._listen()
        self.node.directory.listens_at(ready.client, ready.peer, ready.admin)
        for start in features.hooks(Feature.start):
            start()
        ticking = watched(keep_ticking(self._tick, lambda: self.node.settings.heartbeat / TICKS_PER_HEARTBEAT))
        if ring is None:
            self._on_ready(ready)
        else:
            ring.begin(ready.peer, partial(self._on_ready, ready), self._stop.set)
        await self._stop.wait()
        ticking.cancel()
        is_fatal = self._exit_code != 0
        for stop in features.hooks(Feature.stop):
            await stop(is_fatal=is_fatal)
        if self._exit_code == EXIT_DEPOSED:
            await self._give_up()
        elif not is_fatal:
            await self._leave()
            self.node.committer.close()
        if ring is not None and ring.refusal is not None:
            raise ring.refusal
        return self._exit_code

    # Listening -----------------------------------------------------------------------------------------------

    async def _listen(self) -> BrokerReady:
        settings, node = self.node.settings, self.node
        security, door = self._security, node.features.get(OperatorDoor)
        tls = partial(security.listening, Port.CLIENTS) if security is not None else None
        site = site_of(node, self.count_traffic, self._routes)
        admin = AdminServer(site, tls, recognise=door.recognise, audit=door.audit) if door else AdminServer(site, tls)
        clients = await self._open("client_listen", settings.client_listen, self._listener(Port.CLIENTS))
        peers = await self._open("peer_listen", settings.peer_listen, self._listener(Port.PEERS))
        operators = await self._open("admin_listen", settings.admin_listen, admin.listen)
        is_durable = node.committer.is_durable
        if not is_durable:
            log.warning("in memory only: what is under way is lost when this process ends (give --data-dir to keep it)")
        return BrokerReady(node.broker.name, clients, peers, operators, is_durable)

    def _listener(self, port: Port) -> Listener:
        handlers, security = self._handlers(port, self._made), self._security
        return lambda host, number: listen(
            host, number, handlers, lambda: security.listening(port) if security is not None else None
        )

    def _handlers(self, port: Port, on_made: Callable[[Connection], None] = lambda _: None) -> Handlers:
        return Handlers(partial(self._frame, port), self._lost, on_made, on_data=self._data)

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

    # Connections ---------------------------------------------------------------------------------------------

    def _made(self, connection: Connection) -> None:
        """Where too many have not said Hello yet, the oldest of them is ended."""
        if self._stop.is_set():
            connection.abort("stopping")
            return
        self.connections.set(connection, ConnectionRole(RoleKind.STRANGER))
        if self.connections.count(RoleKind.STRANGER) > self.node.settings.limits.strangers:
            oldest, *_ = self.connections.of_role(RoleKind.STRANGER)
            self._end_connection(oldest, "too many connections that have not said Hello")

    def _frame(self, port: Port, connection: Connection, frame: Frame) -> None:
        """Frames of peers go to the node (`_set_peer`)."""
        match self.connections.role_of(connection):
            case ConnectionRole(RoleKind.READER):
                if self.node.features[Readers].read(connection, frame, time.monotonic()):
                    self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
            case ConnectionRole(RoleKind.TUNNEL):
                self._end_connection(connection, "bytes before there is a tunnel")
            case _:
                self._greet(port, connection, frame)

    def _data(self, connection: Connection, _frames: list[Data]) -> None:
        self._end_connection(connection, "Data instead of Hello")

    def _set_peer(self, connection: Connection, peer: Node) -> None:
        self.connections.set(connection, ConnectionRole(RoleKind.PEER, peer))
        connection.hand_over(partial(self.node.receive, peer), partial(self.node.receive_data, peer))

    def _greet(self, port: Port, connection: Connection, hello: Frame) -> None:
        """The first frame gives a connection its role."""
        if isinstance(hello, Login) and port is Port.CLIENTS:
            self._log_in(connection, hello)
        elif not isinstance(hello, Hello):
            self._end_connection(connection, f"{type(hello).__name__} instead of Hello")
        elif port is Port.CLIENTS and (reason := self._why_denied(connection, hello)):
            self._deny(connection, hello.node, reason)
        elif (take := self._without_session(port).get(hello.role)) is not None:
            take(connection, hello)
        elif reason := self.node.accept(connection, hello, port):
            log.warning("refused %s on the %s port: %s", connection.peername, port.value, reason)
        else:
            self._set_peer(connection, hello.node)
            whose = f" by principal {principal}" if (principal := self._principal_of(connection)) else ""
            log.info("%s %s is connected from %s%s", port.value, hello.node, connection.peername, whose)

    def _without_session(self, port: Port) -> Mapping[str, Callable[[Connection, Hello], None]]:
        """Who takes connections that have no session, by the role in their Hello."""
        enquiry = {ENQUIRY: partial(self._answer_enquiry, port)}
        match port:
            case Port.CLIENTS:
                return {**enquiry, READER: self._take_reader}
            case Port.PEERS:
                return {**enquiry, METER: self._measure, STANDBY: self._take_member, TUNNEL: self._make_tunnel}

    def _measure(self, connection: Connection, _hello: Hello) -> None:
        self.connections.set(connection, ConnectionRole(RoleKind.METER))
        connection.send(ANSWER)
        connection.close("measured")

    def _answer_enquiry(self, port: Port, connection: Connection, hello: Hello) -> None:
        self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
        answer_enquiry(connection, hello.wants, self.node.directory.whereabouts(hello.wants, port))

    def _take_reader(self, connection: Connection, hello: Hello) -> None:
        if reason := self.node.features[Readers].admit(connection, hello, time.monotonic()):
            log.warning("refused %s as a reader of %s: %s", connection.peername, hello.node, reason)
        else:
            self.connections.set(connection, ConnectionRole(RoleKind.READER))

    def _take_member(self, connection: Connection, hello: Hello) -> None:
        if self._members is None:
            reason = f"{self.node.broker.name} holds no copies of brokers: give it a table [standby]"
            connection.send(Bye(ByeReason.REFUSED, reason))
            connection.close(reason)
        else:
            reason = self._members.accept(connection, hello)
        self.connections.set(connection, ConnectionRole(RoleKind.REFUSED if reason else RoleKind.MEMBER))
        if reason:
            log.warning("refused %s as the machine of %r: %s", connection.peername, hello.node, reason)

    def _make_tunnel(self, connection: Connection, hello: Hello) -> None:
        tunnels = self.node.features.get(Tunnels)
        if tunnels is None:
            reason = f"{self.node.broker.name} passes no connections on: give it a table [relay]"
            connection.send(Bye(ByeReason.REFUSED, reason))
            connection.close(reason)
        else:
            reason = tunnels.accept(connection, hello)
        self.connections.set(connection, ConnectionRole(RoleKind.REFUSED if reason else RoleKind.TUNNEL))
        if reason:
            log.info("refused a tunnel for %s at %s: %s", hello.node, connection.peername, reason)

    def _principal_of(self, connection: Connection) -> str:
        door = self.node.features.get(ClientDoor)
        return door.visitor(connection) if door is not None else ""

    def _log_in(self, connection: Connection, login: Login) -> None:
        door = self.node.features.get(ClientDoor)
        if door is None:
            self._deny(connection, login.node, "there is no log-in here: connect without a key or a token")
            return
        try:
            challenge = door.log_in(connection, login)
        except AccessError as error:
            self._deny(connection, login.node, str(error))
        else:
            if challenge is not None:
                connection.send(challenge)

    def _why_denied(self, connection: Connection, hello: Hello) -> str:
        door = self.node.features.get(ClientDoor)
        try:
            if door is not None:
                door.admit(connection, hello)
        except AccessError as error:
            return str(error)
        return ""

    def _deny(self, connection: Connection, name: Node, reason: str) -> None:
        log.warning("denied %s as %r: %s", connection.peername, name, reason)
        self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
        connection.send(Bye(ByeReason.DENIED, reason))
        connection.close(reason)

    def _end_connection(self, connection: Connection, reason: str) -> None:
        """One that has a role keeps it: whoever has taken it over hears that it is lost."""
        log.warning("connection with %s ended: %s", connection.peername, reason)
        if self.connections.role_of(connection).role is RoleKind.STRANGER:
            self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
        connection.abort(reason)

    def _lost(self, connection: Connection, reason: str) -> None:
        if (door := self.node.features.get(ClientDoor)) is not None:
            door.left(connection)
        if connection.tls is not None and connection.tls.failure is not None:
            self.node.counters.clients.tls_refused += 1
        match self.connections.remove(connection):
            case ConnectionRole(RoleKind.PEER, peer):
                log.info("connection with %s ended: %s", peer, reason)
                self.node.lost(peer, connection)
                if not self.connections.count(RoleKind.PEER):
                    self._all_gone.set()
            case ConnectionRole(RoleKind.READER):
                self.node.features[Readers].lost(connection)
            case ConnectionRole(RoleKind.MEMBER):
                assert self._members is not None
                self._members.lost(connection, reason)
            case ConnectionRole(RoleKind.TUNNEL):
                self.node.features[Tunnels].lost(connection, reason)
            case ConnectionRole(RoleKind.STRANGER | RoleKind.REFUSED):
                self.node.counters.clients.strangers_closed += 1

    def count_traffic(self) -> None:
        """Bring the counters of frames up to date."""
        total, counters = self.connections.traffic, self.node.counters.frames
        counters.frames_in, counters.frames_out = total.frames_received, total.frames_sent
        counters.bytes_in, counters.bytes_out = total.bytes_received, total.bytes_sent

    # Dialling ------------------------------------------------------------------------------------------------

    async def _dial(self, peer: Node, known: str) -> bool:
        return await self._connect(peer, known, partial(self._open_directly, peer, known))

    async def _dial_through(self, peer: Node, relay: Relay) -> bool:
        opening = partial(self._open_through, peer, relay)
        return await self._connect(peer, f"the end of a tunnel of {relay.name}", opening, relay.name)

    async def _connect(
        self, peer: Node, place: str, opening: Callable[[], Awaitable[Connection]], relay: Node = ""
    ) -> bool:
        """One attempt: whether there is a connection."""
        if self.node.features[Probes].why_closed(peer):
            return False
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_SECONDS):
                connection = await opening()
        except TlsError as error:
            log.warning("%s at %s: %s", peer, place, error)
            return False
        except (OSError, TimeoutError, SettingsError) as error:
            log.debug("%s does not answer at %s: %s", peer, place, error)
            return False
        if connection.is_closing:  # lost already
            return False
        self._set_peer(connection, peer)
        self.node.dialled(peer, connection, relay)
        return True

    async def _open_directly(self, peer: Node, known: str) -> Connection:
        address = parse_address(known, key=f"peers.{peer}")
        return await open_connection(address.host, address.port, self._handlers(Port.PEERS), self._dialling_tls(peer))

    async def _open_through(self, peer: Node, relay: Relay) -> Connection:
        hello = wanted_tunnel(self.node.broker.name, self.node.endpoint.epoch, peer)
        handlers, tls = self._handlers(Port.PEERS), self._dialling_tls(peer)
        return await open_tunnel(relay, hello, self._dialling_tls(relay.name), handlers, tls)

    def _dialling_tls(self, broker: Node) -> TlsSide | None:
        return self._security.dialling(broker) if self._security is not None else None

    def _tick(self) -> None:
        self.node.tick()

    # Signals and the end -------------------------------------------------------------------------------------

    def _asked_to_stop(self) -> None:
        if self._is_asked_to_stop:
            os._exit(EXIT_FORCED)
        log.info("stopping")
        self._is_asked_to_stop = True
        ring = self.node.features.get(RingMember)
        if self._stop.is_set() or ring is None or not ring.leaves(self._stop.set):
            self.is_stopped = True
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
        self._check_certificates()
        set_log_level(applied.log_level)
        later = f"; after a restart: {', '.join(waiting)}" if waiting else ""
        log.info("settings read again; taken over: %s%s", ", ".join(taken) or "nothing", later)

    def _check_certificates(self) -> None:
        """End connections of those who are not members any more, or whose certificate is revoked."""
        for connection in self.connections:
            if connection.tls is None or not connection.tls.is_secured:
                continue
            try:
                connection.tls.check(connection.tls.node)
            except TlsError as error:
                log.warning("connection with %s ended: %s", connection.tls.node or connection.peername, error)
                connection.close(str(error))

    def _end(self, code: int, reason: str) -> None:
        """The node says that the process must end. Code 0: in good order."""
        if code:
            log.critical("%s", reason)
            self._exit_code = code
        elif not self._stop.is_set():
            log.info("%s", reason)
        self._stop.set()

    def depose(self, reason: str) -> None:
        """Another machine runs this broker: nothing more is committed, confirmed or sent here."""
        log.warning("%s", reason)
        self._exit_code = EXIT_DEPOSED
        self.node.committer.halt()
        self._stop.set()

    async def _give_up(self) -> None:
        """End all but the connections with machines, and close the store: others may open it."""
        await end_listening(self._servers)
        reason = f"{self.node.broker.name} runs on another machine"
        for connection in self.connections:
            if self.connections.role_of(connection).role is not RoleKind.MEMBER:
                connection.send(Bye(ByeReason.LEAVING, reason))
                connection.close(reason)
        await asyncio.to_thread(self.node.committer.close)

    async def _leave(self) -> None:
        await end_listening(self._servers)
        for connection in self.connections:
            if self.connections.role_of(connection).role not in (RoleKind.PEER, RoleKind.READER, RoleKind.MEMBER):
                connection.abort("stopping")
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                self._all_gone.clear()
                await self.node.leave(f"{self.node.broker.name} is stopping")
                if self.connections.count(RoleKind.PEER):
                    await self._all_gone.wait()
        except TimeoutError:
            log.warning("not all peers took the goodbye within %g s", STOP_SECONDS_MAX)


def _differences(current: BrokerSettings, wanted: BrokerSettings) -> tuple[BrokerSettings, list[str]]:
    """The settings to go on with, and the keys whose new values have to wait for a restart."""
    changed = [k for k in current.__struct_fields__ if getattr(current, k) != getattr(wanted, k)]
    waiting = [k for k in changed if k not in RELOADABLE]
    values = {k: getattr(wanted if k in RELOADABLE else current, k) for k in current.__struct_fields__}
    if current.peers.keys() != wanted.peers.keys():  # addresses may change, the tree may not
        values["peers"] = {peer: wanted.peers.get(peer, address) for peer, address in current.peers.items()}
        waiting.append("peers")
    return BrokerSettings(**values), waiting
