"""The door for clients: who is connected as what, and the rights that the broker gives them.

Rule 1: the core decides by the rights that it was told last (`Permit`), which are in its journal; this feature tells
        them: when a client connects, before its Hello is handled; when the access file is read again, for all clients,
        absent ones too, and those that are gone while something waits for them; when a client or a component arrives
        from another broker, in the same turn.
Rule 2: who may no longer be what it is connected as is disconnected: at a reload, and when its token or certificate
        expires. So is who has logged in with what the file no longer has: a key that was replaced, a token of another
        issuer.
Rule 3: a reader has the log-in of the principal that the client itself has: what waits was chosen by its rights.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pleach.access.access_file import Proof, load_access
from pleach.access.principals import Principal
from pleach.core.access.rights import EVERYTHING, NOTHING, Rights
from pleach.core.effects import Effect
from pleach.core.links.frames import Bye, ByeReason, Challenge, Frame, Hello, Login
from pleach.core.links.reading import READER
from pleach.core.messages import Message, Node, Permit, RequestHost
from pleach.errors import AccessError
from pleach.server.door.login import LoginDesk, Visitor
from pleach.server.feature import Feature
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts

log = logging.getLogger(__name__)


class DoorConnection(Visitor, Protocol):
    def send(self, frame: Frame) -> None: ...

    def close(self, reason: str = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Visit:
    """A connection that is let in: a client's own, or that of a reader."""

    client: Node
    principal: str
    proof: Proof
    expires: float  # seconds since 1970; 0.0: never


class ClientDoor(Feature):
    def __init__(
        self,
        parts: NodeParts,
        file: Path,
        *,
        certificate: Callable[[], bytes] = lambda: b"",
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises AccessError where the file is not valid. `certificate`: of this broker, DER; empty without TLS."""
        self._broker, self._endpoint, self._committer = parts.broker, parts.endpoint, parts.committer
        self._directory = parts.directory
        self._clock, self._wall_clock = parts.clock, wall_clock
        self._counters = parts.counters.door
        self._file = file
        self.access = load_access(file)
        self._desk = LoginDesk(lambda: self.access, certificate)
        self._visits: dict[DoorConnection, Visit] = {}
        self._connections: Counter[str] = Counter()  # by principal
        self._principals: dict[Node, str] = {}  # of clients whose Hello is being handled
        self._present: dict[Node, str] = {}  # principals of clients that are connected

    # Connections, as the daemon meets them ---------------------------------------------------------------------

    def log_in(self, connection: DoorConnection, login: Login) -> Challenge | None:
        """Raises AccessError; the connection ends."""
        try:
            return self._desk.log_in(connection, login)
        except AccessError:
            self._counters.denied += 1
            raise

    def admit(self, connection: DoorConnection, hello: Hello) -> None:
        """Let a Hello in, of a client or of a reader; raises AccessError."""
        try:
            principal, login = self._desk.admit(connection, hello)
            self._check_connections(principal)
            self._check_reader(principal, hello)
        except AccessError:
            self._counters.denied += 1
            raise
        self._visits[connection] = Visit(hello.node, principal.name, login.proof, login.expires)
        self._connections[principal.name] += 1
        if hello.role != READER:
            self._principals[hello.node] = principal.name

    def visitor(self, connection: DoorConnection) -> str:
        """The principal of a connection that was let in; empty for others."""
        visit = self._visits.get(connection)
        return visit.principal if visit is not None else ""

    def left(self, connection: DoorConnection) -> None:
        """A connection has ended."""
        self._desk.forget(connection)
        if (visit := self._visits.pop(connection, None)) is not None:
            self._connections[visit.principal] -= 1
            self._principals.pop(visit.client, None)  # where it was refused for another reason

    def _check_connections(self, principal: Principal) -> None:
        most = principal.quotas.connections
        if most and self._connections[principal.name] >= most:
            raise AccessError(f"{principal.name!r} has {most} connections, its quota", "close one of them")

    def _check_reader(self, principal: Principal, hello: Hello) -> None:
        """Rule 3. Where nobody has logged in as the client since there is an access file, this one has."""
        known = self._broker.sessions.access_of(hello.node)
        if hello.role != READER or known is None:
            return
        if not known.principal:
            self._permit(hello.node, principal.name)
        elif known.principal != principal.name:
            raise AccessError(
                f"{hello.node!r} has not logged in as {principal.name!r}", "read with the log-in of the client"
            )

    def connected(self, peer: Node) -> None:
        if (principal := self._principals.pop(peer, None)) is not None:
            self._present[peer] = principal
            self._permit(peer, principal)

    def disconnected(self, peer: Node, now: float) -> None:
        self._present.pop(peer, None)

    # Rights ----------------------------------------------------------------------------------------------------

    def principal_of(self, client: Node) -> Principal | None:
        known = self._broker.sessions.access_of(client)
        return self.access.get(known.principal) if known is not None else None

    def _permit(self, client: Node, principal: str) -> None:
        self._tell(client, principal, self.access.rights_of(principal, client))

    def _tell(self, client: Node, principal: str, rights: Rights) -> None:
        known = self._broker.sessions.access_of(client)
        if known is not None and (known.principal, known.rights) == (principal, rights):
            return
        self._endpoint.request(Permit(client, principal, rights), now=self._clock())
        self._committer.touch()

    def _permit_component(self, component: Node) -> None:
        self._tell(component, *self._file_on_component(component))

    def _file_on(self, client: Node) -> tuple[str, Rights]:
        """The principal of a client that is known here, and its rights by the file. Who is connected counts first."""
        if client in self._broker.hosting.here:
            return self._file_on_component(client)
        known = self._broker.sessions.access_of(client)
        principal = self._present.get(client) or (known.principal if known is not None else "")
        return principal, self.access.rights_of(principal, client)

    def _file_on_component(self, component: Node) -> tuple[str, Rights]:
        host = self.access.host_of(component)
        return (host.name, host.rights) if host else ("", NOTHING)

    def message_received(self, sender: Node, message: Message) -> None:
        """A component needs its rights when it begins. One that has the name of a client will not begin."""
        if isinstance(message, RequestHost) and not self._is_client(message.component):
            self._permit_component(message.component)

    def _is_client(self, name: Node) -> bool:
        return name in self._broker.sessions and name not in self._broker.hosting.here

    def message_handled(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        """The broker judges those who arrive by its own file, right behind the message that they arrive with."""
        if isinstance(message, Permit):
            return  # one of those that follow
        for client in self._broker.sessions.unjudged:
            self._endpoint.follow_up(Permit(client, *self._file_on(client)))
            self._committer.touch()

    # Time and changes ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The file may have changed since the last start, or there was none."""
        judged = {client: self._file_on(client) for client in self._known_clients()}
        self._endpoint.request(Permit("", "", NOTHING), now=self._clock())
        for client, (principal, rights) in judged.items():
            self._tell(client, principal, rights)
        for client in self._broker.sessions.unjudged:
            if (known := self._broker.sessions.access_of(client)) is not None:
                self._endpoint.request(Permit(client, "", known.rights), now=self._clock())

    def settings_applied(self) -> None:
        try:
            self.access = load_access(self._file)
        except AccessError as error:
            self._counters.reloads_refused += 1
            log.error("the access file is refused, and the former one stays: %s", error)  # noqa: TRY400
            return
        log.info("access file read: %d principals", len(self.access))
        for client in self._known_clients():
            self._tell(client, *self._file_on(client))
        for connection, visit in list(self._visits.items()):
            principal, shown = self.access.get(visit.principal), self.access.of_proof(visit.proof)
            if principal is None or not principal.may_be(visit.client):
                reason = f"{visit.principal!r} may no longer connect as {visit.client!r}"
                self._end(connection, Bye(ByeReason.DENIED, reason))
            elif shown is not principal:
                reason = f"the access file no longer has what {visit.principal!r} has logged in with: log in again"
                self._end(connection, Bye(ByeReason.LEAVING, reason))

    def _known_clients(self) -> list[Node]:
        """Clients that are attached, and those for which something waits, though they are not.

        But for clients as whom nobody has logged in since there is an access file: what waits for them is kept until
        somebody does, by whose rights they are judged then. Nobody gets it before.
        """
        attached, is_broker = self._broker.sessions, self._directory.is_broker
        waiting = [peer for peer, session in self._endpoint.sessions.items() if session.unconfirmed]
        found = [*attached.clients, *(each for each in waiting if each not in attached and not is_broker(each))]
        return [each for each in found if each in self._broker.hosting.here or self._file_on(each)[0]]

    def tick(self, now: float) -> None:
        wall = self._wall_clock()
        for connection, visit in list(self._visits.items()):
            if visit.expires and visit.expires < wall:
                self._end(connection, Bye(ByeReason.LEAVING, "the log-in has expired: log in again"))

    def _end(self, connection: DoorConnection, bye: Bye) -> None:
        log.warning("%s is disconnected: %s", self._visits[connection].client, bye.reason)
        connection.send(bye)
        connection.close(bye.reason)

    # What operators see ----------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        return {"principals": len(self.access), "logged_in": len(self._visits)}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        return {"pleach_principals": [MetricSample(len(self.access))]}


class OpenDoor(Feature):
    """Without an access file everybody may do everything, also where there was one before."""

    def __init__(self, parts: NodeParts) -> None:
        self._sessions, self._endpoint, self._clock = parts.broker.sessions, parts.endpoint, parts.clock

    def start(self) -> None:
        if not self._sessions.expected.is_guarded:
            return
        for client in ("", *self._sessions.clients):
            self._endpoint.request(Permit(client, "", EVERYTHING), now=self._clock())
