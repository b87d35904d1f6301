"""What the operators' port of a machine says and does about the copies that it holds; also where no broker runs.

GET  /standby                              the brokers that this machine holds copies of, or runs
POST /standby/promote {"broker": "b"}      run b here, from the copy: the operator says that its other machines are
                                           lost. Where b runs already, it goes on without them
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import msgspec

from pleach.access.access_file import load_access
from pleach.access.principals import Verb
from pleach.core.messages import Node
from pleach.errors import PleachError, SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.net.allowed_hosts import Hosts
from pleach.net.connection import end_listening
from pleach.server.door.audit_log import FILE, AuditLog
from pleach.server.door.operator_door import OperatorDoor
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.http.page import HttpResponse, failure, json_page, posted, shown
from pleach.server.http.routes import Route, Site, posts, reads
from pleach.server.http.server import HOST_REMEDY, AdminServer
from pleach.server.links import Port
from pleach.server.settings import BrokerSettings, host_names
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.primary_seat import MachineHost, PrimarySeat


class PromoteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Node


class StandbyPages:
    def __init__(self, host: MachineHost, seat: PrimarySeat | None = None) -> None:
        """`seat`: of the broker that this process runs, if it runs one."""
        self._host = host
        self._seat = seat

    @property
    def routes(self) -> Sequence[Route]:
        return (
            reads("/standby", shown(lambda: json_page(HTTPStatus.OK, self._status()))),
            posts("/standby/promote", Verb.REMOVE, posted(PromoteBody, self._promote)),
        )

    def _status(self) -> dict[str, object]:
        return {**self._host.status(), "leads": self._seat.status() if self._seat is not None else {}}

    async def _promote(self, body: PromoteBody) -> HttpResponse:
        is_own = self._seat is not None and self._seat.member.broker == body.broker
        try:
            view = self._seat.decree() if self._seat is not None and is_own else self._host.decree(body.broker)
        except PleachError as error:
            return failure(HTTPStatus.CONFLICT, "see GET /standby for what is here", str(error))
        return json_page(HTTPStatus.OK, {"broker": body.broker, "view": view.number})


class HostSite:
    """The operators' port of a process that runs no broker."""

    def __init__(self, settings: BrokerSettings, host: StandbyHost, security: TransportSecurity | None) -> None:
        self._settings = settings
        self._security = security
        self._door = _HostDoor(settings, security) if settings.access is not None else None
        self._server: asyncio.Server | None = None
        told = {"name": settings.name, "zone": settings.zone, "ready": True, "reasons": [], "broker": False}
        pages = (
            reads("/healthz", shown(lambda: json_page(HTTPStatus.OK, {"alive": True}))),
            reads("/readyz", shown(lambda: json_page(HTTPStatus.OK, {"ready": True, "reasons": []}))),
            *(
                reads(page, shown(lambda: json_page(HTTPStatus.OK, {**told, "standby": host.status()})))
                for page in ("/status", "/glance")
            ),
        )
        self._site = Site((*pages, *StandbyPages(host).routes), Hosts(host_names(settings), HOST_REMEDY))

    async def listen(self) -> str:
        """Returns the address that it has; raises SettingsError."""
        text, security, door = self._settings.admin_listen, self._security, self._door
        tls = (lambda: security.listening(Port.CLIENTS)) if security is not None else None
        server = (
            AdminServer(self._site, tls, recognise=door.recognise, audit=door.audit)
            if door is not None
            else AdminServer(self._site, tls)
        )
        place = parse_address(text, key="admin_listen")
        try:
            self._server = await server.listen(place.host, place.port)
        except OSError as error:
            remedy = "give an address that is free and ours"
            raise SettingsError("admin_listen", f"{text}: {error.strerror}", remedy) from None
        host, port, *_ = self._server.sockets[0].getsockname()
        return str(Address(host, port))

    def reload(self) -> None:
        """Read the access file again. Raises AccessError where it is refused: the former one stays."""
        if self._door is not None:
            self._door.reload()

    async def close(self) -> None:
        if self._server is not None:
            await end_listening([self._server])
        if self._door is not None:
            await self._door.stop(is_fatal=False)


class _HostDoor(OperatorDoor):
    """Operators' log-in at a process without a broker, whose features would read the access file else."""

    def __init__(self, settings: BrokerSettings, security: TransportSecurity | None) -> None:
        """Raises AccessError."""
        assert settings.access is not None
        self._file = Path(settings.access.file)
        self._loaded = load_access(self._file)
        audit = AuditLog(Path(settings.access.audit) if settings.access.audit else Path(settings.data_dir) / FILE)
        super().__init__(settings.name, lambda: self._loaded, security, audit)

    def reload(self) -> None:
        """Raises AccessError."""
        self._loaded = load_access(self._file)
        self.settings_applied()
