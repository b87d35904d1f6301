"""A small HTTP/1.1 server for operators: bounded requests, one request per connection.

/healthz   the process is alive                /metrics   Prometheus text
/readyz    200 or 503, with reasons            /status    everything, as JSON
/overlay/… reconfigurations: operations.py     /glance    what changes, as JSON: status.py
/traffic, /distances: telemetry.py             /components what the broker hosts: components.py
                                               /debug/…   faults on purpose, where they are allowed: faults.py

Without an access file whoever reaches this port may reconfigure the tree; but not a web page. A request must use a host
name of ours (net/allowed_hosts.py), on every route. A body must be declared as JSON, which no page can send to another
site without asking first; and the page that asks for an action must not be of another site.

A request goes through these, and the first that refuses it answers: head, Host, route, caller, verb, origin, body,
handler. Where there is an access file, each POST leaves lines in the audit log (server/door/audit_log.py).
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from http import HTTPMethod, HTTPStatus
from typing import Any, NamedTuple, SupportsIndex

from pleach.errors import AuditError
from pleach.net.allowed_hosts import Hosts, why_foreign
from pleach.net.secured_streams import CERTIFICATE, SecuredProtocol
from pleach.net.tls_layer import TlsSide
from pleach.server.absence import AbsentClients
from pleach.server.door.audit_log import AuditLog, fresh_id
from pleach.server.door.operator_door import OperatorDoor
from pleach.server.http.broker_moves import BrokerMovePages
from pleach.server.http.caller import Caller, Evidence, Recognise, everybody
from pleach.server.http.components import ComponentPages
from pleach.server.http.exchange import HttpExchange
from pleach.server.http.faults import FaultPages, InjectedFaults
from pleach.server.http.login import LoginPages
from pleach.server.http.open_connections import OpenConnection, OpenConnections, network_of
from pleach.server.http.operations import OperationPages
from pleach.server.http.page import Handler, HttpRequest, HttpResponse, HttpStream, failure, json_page, shown
from pleach.server.http.routes import Route, Site, for_tenants, reads
from pleach.server.http.status import gauges, glance, status, told_to, unready
from pleach.server.http.telemetry import TelemetryPages
from pleach.server.metrics import render
from pleach.server.node import BrokerNode
from pleach.server.settings import host_names
from pleach.server.standby.replication import Replication
from pleach.server.traffic_notes import TrafficNotes

BACKLOG = 1_024  # connections that the system keeps for us; of one more, the client tries again after a second
ACCEPTED_AT_ONCE_MAX = 128
RECEIVE_BYTES_MAX = 8_192  # that are read ahead
REQUEST_SECONDS_MAX = 5.0  # to send a request, and again to take the answer
HOST_REMEDY = "ask by an address, or by a name that the broker was given with --admin-advertise"

LOG_IN_REMEDY = "give a certificate (--tls) or a token (--token-file) of a principal in the access file"
LOG_IN_FIELDS = {"WWW-Authenticate": 'Bearer realm="pleach"'}

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def site_of(node: BrokerNode, refresh: Callable[[], None], more: Iterable[Route] = ()) -> Site:
    """`refresh`: brings the counters up to date that are not counted one by one."""

    def ready() -> HttpResponse:
        reasons = unready(node)
        code = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return json_page(code, {"ready": not reasons, "reasons": reasons})

    def metrics() -> HttpResponse:
        refresh()
        return HttpResponse(HTTPStatus.OK, PROMETHEUS, render(gauges(node), node.counters).encode())

    def current(content: Callable[[BrokerNode, Caller], dict[str, object]]) -> Handler:
        async def answer(asked: HttpRequest) -> HttpResponse:
            refresh()
            return json_page(HTTPStatus.OK, told_to(asked.caller, content(node, asked.caller)))

        return answer

    pages = (
        reads("/healthz", shown(lambda: json_page(HTTPStatus.OK, {"alive": True}))),
        reads("/readyz", shown(ready)),
        for_tenants(reads("/metrics", shown(metrics))),
        for_tenants(reads("/status", current(status))),
        for_tenants(reads("/glance", current(glance))),
    )
    name, features = node.broker.name, node.features
    operations = operation_pages(node)
    parts = (
        operations,
        ComponentPages(node.broker, operations),
        TelemetryPages(name, node.endpoint.epoch, features[TrafficNotes]),
        BrokerMovePages(name, features.get(Replication)),
        FaultPages(node.broker, features.get(InjectedFaults), lambda: node.settings),
    )
    door = features.get(OperatorDoor)
    login = LoginPages(door).routes if door is not None else ()
    routes = (*pages, *(route for part in parts for route in part.routes), *login, *more)
    return Site(routes, Hosts(host_names(node.settings), HOST_REMEDY))


def operation_pages(node: BrokerNode) -> OperationPages:
    absent, settings = node.features[AbsentClients], lambda: node.settings
    return OperationPages(node.broker, node.directory, node.links, node.operations, absent, settings)


class JudgedRequest(NamedTuple):
    """A request with its route; or the refusal, where whoever sent it may not."""

    asked: HttpRequest
    route: Route | None = None
    refusal: HttpResponse | None = None


class AdminServer:
    def __init__(
        self,
        site: Site,
        tls: Callable[[], TlsSide] | None = None,
        *,
        recognise: Recognise = everybody,
        audit: AuditLog | None = None,
    ) -> None:
        """`tls`: asked for each connection; None: plain. `audit`: None: requests are not recorded."""
        self._site = site
        self._tls = tls
        self._recognise = recognise
        self._audit = audit
        self._connections = OpenConnections()
        self._accepting: set[asyncio.Future[object]] = set()

    async def listen(self, host: str, port: int) -> asyncio.Server:
        loop, listening = asyncio.get_running_loop(), list[int]()

        def protocol() -> asyncio.Protocol:
            reader = RequestReader(limit=RECEIVE_BYTES_MAX, loop=loop)
            stream = asyncio.StreamReaderProtocol(reader, lambda _, writer: self._serve(reader, writer), loop=loop)
            return SecuredProtocol(stream, self._tls()) if self._tls is not None else stream

        def first_protocol() -> asyncio.Protocol:
            for connection in (each for fileno in listening for each in accepted(fileno)):
                self._begin(loop.connect_accepted_socket(protocol, connection))
            return protocol()

        server = await loop.create_server(first_protocol, host, port, backlog=BACKLOG)
        listening += [each.fileno() for each in server.sockets]
        return server

    def _begin(self, accepting: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(accepting)
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _serve(self, reader: RequestReader, writer: asyncio.StreamWriter) -> None:
        transport, peer = writer.transport, writer.get_extra_info("peername")
        if not peer:  # it is gone already
            transport.abort()
            return
        has_unread = partial(_has_unread, reader, transport)
        connection = OpenConnection(network_of(peer[0]), transport.abort, has_unread)
        self._connections.opened(connection)
        try:
            await self._exchange(HttpExchange(reader, writer), peer[0], partial(_certificate, writer), connection)
        except (OSError, TimeoutError, asyncio.CancelledError):
            transport.abort()
        finally:
            self._connections.closed(connection)

    async def _exchange(
        self, exchange: HttpExchange, address: str, certificate: Callable[[], bytes], connection: OpenConnection
    ) -> None:
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            judged = await self._judged(exchange, address, certificate)
        self._connections.answering(connection)
        page = await self._recorded(judged)
        if isinstance(page, HttpStream):
            await exchange.stream(page, lambda: self._may_still(judged, certificate()))
        else:
            self._connections.sending(connection, len(page.body))
            exchange.respond(page)
        async with asyncio.timeout(REQUEST_SECONDS_MAX):  # a client that does not read is cut off
            await exchange.close()

    # Who may ---------------------------------------------------------------------------------------------------

    async def _judged(self, exchange: HttpExchange, address: str, certificate: Callable[[], bytes]) -> JudgedRequest:
        """`certificate`: is known when something has come."""
        head = await exchange.head()
        if isinstance(head, HttpResponse):
            return JudgedRequest(HttpRequest("", ""), refusal=head)
        routes = self._site.at(head.path)
        route = routes.get(head.method)
        caller = self._recognise(Evidence(address, certificate(), head.fields))
        asked = head._replace(caller=caller, id=fresh_id(), is_secret=route is not None and route.is_secret)
        if refusal := self._refusal(asked, route, list(routes)):
            return JudgedRequest(asked, refusal=refusal)
        if asked.method != HTTPMethod.POST:
            return JudgedRequest(asked, route)
        body = await exchange.body(asked)
        if isinstance(body, HttpResponse):
            return JudgedRequest(asked, refusal=body)
        return JudgedRequest(asked._replace(body=body), route)

    def _refusal(self, asked: HttpRequest, route: Route | None, methods: list[str]) -> HttpResponse | None:
        """Why the head of a request is refused, if it is."""
        site = self._site
        if reason := site.hosts.why_unknown(asked.fields):
            return failure(HTTPStatus.MISDIRECTED_REQUEST, site.hosts.remedy, reason)
        if route is None:
            return _unrouted(site, methods)
        if not _is_permitted(asked.caller, route):
            return _denied(asked.caller, route)
        if route.method is HTTPMethod.POST and (reason := why_foreign(asked.fields)):
            return failure(HTTPStatus.FORBIDDEN, "use `pleach overlay`, or the dashboard's own page", reason)
        return None

    def _may_still(self, judged: JudgedRequest, certificate: bytes) -> bool:
        """Whether who was let in would be let in now: tokens expire, and access files change."""
        asked, route = judged.asked, judged.route
        caller = self._recognise(Evidence(asked.caller.address, certificate, asked.fields))
        return route is not None and _is_permitted(caller, route)

    # Answers ---------------------------------------------------------------------------------------------------

    async def _recorded(self, judged: JudgedRequest) -> HttpResponse | HttpStream:
        """The answer, once the audit log has what it must have (its rules 1 to 3)."""
        audit, asked, route = self._audit, judged.asked, judged.route
        if audit is None or asked.method != HTTPMethod.POST:
            return await self._answer(judged)
        try:
            if route is not None and route.changes:
                await audit.asked(asked)
        except AuditError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "nothing was changed; try again when it can", str(error))
        page = await self._answer(judged)
        assert isinstance(page, HttpResponse), "what is posted is not answered by a stream"
        try:
            await audit.answered(asked, page.status.value, page.caller)
        except AuditError as error:
            remedy = f"it was handled, with status {page.status.value}; look before you ask again"
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, remedy, str(error))
        return page

    async def _answer(self, judged: JudgedRequest) -> HttpResponse | HttpStream:
        """What is public is answered at once, so that it is answered always."""
        asked, route, refusal = judged
        if route is None:
            assert refusal is not None
            return refusal
        if route.verb is not None and self._connections.is_busy:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "try again when some have ended", "too many requests")
        return await route.handler(asked)


def _is_permitted(caller: Caller, route: Route) -> bool:
    is_theirs = route.verb is None or route.is_for_tenants or caller.is_of_network
    return is_theirs and caller.may(route.verb)


def _denied(caller: Caller, route: Route) -> HttpResponse:
    if caller.is_known and caller.may(route.verb):
        error = f"{route.path} is for operators of the whole network, and {caller.principal!r} is of one tenant"
        return failure(HTTPStatus.FORBIDDEN, "ask an operator of the network", error)
    if caller.is_known:
        error = f"{route.path} needs the verb {str(route.verb)!r}, which {caller.principal!r} does not have"
        return failure(HTTPStatus.FORBIDDEN, "ask an operator who may, or add the verb in the access file", error)
    if route.log_in_at:
        return HttpResponse(HTTPStatus.SEE_OTHER, "text/plain", b"", {"Location": route.log_in_at})
    error = caller.complaint or f"{route.path} is for those who have logged in"
    return failure(HTTPStatus.UNAUTHORIZED, LOG_IN_REMEDY, error)._replace(fields=LOG_IN_FIELDS)


def _certificate(writer: asyncio.StreamWriter) -> bytes:
    return writer.get_extra_info(CERTIFICATE) or b""


def accepted(listening: int) -> Iterator[socket.socket]:
    """Whoever waits to be accepted, up to a bound.

    uvloop accepts one connection in a turn of the loop: behind a crowd of strangers, others would wait for seconds.
    """
    listener = socket.socket(fileno=listening)
    try:
        listener.settimeout(0.0)
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            connection, _ = listener.accept()
            yield connection
    except OSError:  # nobody else waits; or there are too many open files, which the server itself tells
        return
    finally:
        listener.detach()


class RequestReader(asyncio.StreamReader):
    """Knows whether data has come since it was last read from."""

    has_data = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.has_data = True
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.has_data = False
        return data


def _has_unread(reader: RequestReader, transport: asyncio.BaseTransport) -> bool:
    """Whether a client has sent what was not read yet, here or by the system."""
    if reader.has_data or transport.is_closing():
        return reader.has_data
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


def _unrouted(site: Site, methods: list[str]) -> HttpResponse:
    remedy = f"there are {site.listed}"
    if not methods:
        return failure(HTTPStatus.NOT_FOUND, remedy)
    return failure(HTTPStatus.METHOD_NOT_ALLOWED, remedy)._replace(fields={"Allow": ", ".join(methods)})
