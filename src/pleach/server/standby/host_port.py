"""The ports of a process that runs no broker, or none yet: machines come in, brokers shall come later.

Clients, and whoever else asks for a broker, are told where it is, as far as this machine knows.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from pleach.core.links.frames import (
    ENQUIRY,
    STANDBY,
    Bye,
    ByeReason,
    Challenge,
    Data,
    Frame,
    Hello,
    Login,
    LoginKind,
)
from pleach.core.messages import Node
from pleach.errors import SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.net.connection import Connection, Handlers, end_listening, listen
from pleach.net.enquiry import Whereabouts, answer_enquiry
from pleach.net.tls_layer import TlsSide
from pleach.server.connections import ConnectionRole, ConnectionTable, RoleKind
from pleach.server.distances import ANSWER, METER
from pleach.server.links import Port
from pleach.server.standby.links import MemberLinks

STRANGERS_MAX = 256
NONCE_BYTES = 32

log = logging.getLogger(__name__)


class HostPort:
    def __init__(
        self,
        links: MemberLinks,
        reason: str,
        *,
        tls: Callable[[], TlsSide | None] = lambda: None,
        locate: Callable[[Node], Whereabouts | None] = lambda _: None,
        port: Port = Port.PEERS,
    ) -> None:
        """`reason`: why brokers are not let in. `tls`: asked for each connection. `locate`: where a broker is."""
        self.connections = ConnectionTable()
        self._links = links
        self._reason = reason
        self._tls = tls
        self._locate = locate
        self._port = port
        self._server: asyncio.Server | None = None

    async def listen(self, text: str) -> str:
        """Returns the address that it has; raises SettingsError."""
        address = parse_address(text, key=f"{self._port.value}_listen")
        handlers = Handlers(self._greet, self._lost, self._made, on_data=self._data)
        try:
            self._server = await listen(address.host, address.port, handlers, self._tls)
        except OSError as error:
            remedy = "give an address that is free and ours"
            raise SettingsError(f"{self._port.value}_listen", f"{text}: {error.strerror}", remedy) from None
        host, port, *_ = self._server.sockets[0].getsockname()
        return str(Address(host, port))

    async def close(self) -> None:
        """Listen no more. Connections with machines stay, for others to come by another port."""
        if self._server is not None:
            await end_listening([self._server])
            self._server = None
        for connection in self.connections.of_role(RoleKind.STRANGER):
            connection.abort("listens no more")

    def _made(self, connection: Connection) -> None:
        self.connections.set(connection, ConnectionRole(RoleKind.STRANGER))
        if self.connections.count(RoleKind.STRANGER) > STRANGERS_MAX:
            oldest, *_ = self.connections.of_role(RoleKind.STRANGER)
            self._end(oldest, "too many connections that have not said Hello")

    def _data(self, connection: Connection, _frames: list[Data]) -> None:
        self._end(connection, "Data instead of Hello")

    def _greet(self, connection: Connection, hello: Frame) -> None:
        match hello:
            case Login(kind=LoginKind.KEY) if self._port is Port.CLIENTS:
                connection.send(Challenge(os.urandom(NONCE_BYTES)))  # where a broker is, is no secret
            case Login() if self._port is Port.CLIENTS:
                pass
            case Hello(wants=wanted, role=role) if role == ENQUIRY or self._port is Port.CLIENTS:
                self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
                answer_enquiry(connection, wanted, self._locate(wanted))
            case Hello(role=role) if role == STANDBY:
                reason = self._links.accept(connection, hello)
                self.connections.set(connection, ConnectionRole(RoleKind.REFUSED if reason else RoleKind.MEMBER))
                if reason:
                    log.warning("refused %s as the machine of %r: %s", connection.peername, hello.node, reason)
            case Hello(role=role) if role == METER:
                self.connections.set(connection, ConnectionRole(RoleKind.METER))
                connection.send(ANSWER)
                connection.close("measured")
            case Hello():
                self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
                connection.send(Bye(ByeReason.LEAVING, self._reason))
                connection.close(self._reason)
            case _:
                self._end(connection, f"{type(hello).__name__} instead of Hello")

    def _end(self, connection: Connection, reason: str) -> None:
        log.warning("connection with %s ended: %s", connection.peername, reason)
        self.connections.set(connection, ConnectionRole(RoleKind.REFUSED))
        connection.abort(reason)

    def _lost(self, connection: Connection, reason: str) -> None:
        if self.connections.remove(connection).role is RoleKind.MEMBER:
            self._links.lost(connection, reason)
