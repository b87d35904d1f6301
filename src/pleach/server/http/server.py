"""A small HTTP/1.1 server for operators: bounded requests, one request per connection.

/healthz   the process is alive                /metrics   Prometheus text
/readyz    200 or 503, with reasons            /status    everything, as JSON
/overlay/… reconfigurations: operations.py     /glance    what changes, as JSON: status.py
           stand-ins: healing.py               /components what the broker hosts: components.py
/traffic, /distances: telemetry.py             /debug/…   faults on purpose, where they are allowed: faults.py

Whoever reaches this port may reconfigure the tree; but not a web page that somebody has open. A request must use a host
name of ours (net/allowed_hosts.py), on every route. A body must be declared as JSON, which no page can send to another
site without asking first; and the page that asks for an action must not be of another site.

A request goes through these, and the first that refuses it answers: head, Host, route, verb, origin, body, handler.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from http import HTTPMethod, HTTPStatus
from typing import Any, SupportsIndex

from pleach.net.allowed_hosts import Hosts, why_foreign
from pleach.server.absence import AbsentClients
from pleach.server.healing.guardian import Guardian
from pleach.server.http.caller import caller_of
from pleach.server.http.components import ComponentPages
from pleach.server.http.exchange import HttpExchange
from pleach.server.http.faults import FaultPages, InjectedFaults
from pleach.server.http.healing import HealingPages
from pleach.server.http.open_connections import OpenConnection, OpenConnections, network_of
from pleach.server.http.operations import OperationPages
from pleach.server.http.page import HttpRequest, HttpResponse, HttpStream, failure, json_page, shown
from pleach.server.http.routes import Route, Site, reads
from pleach.server.http.status import gauges, glance, status, unready
from pleach.server.http.telemetry import TelemetryPages
from pleach.server.metrics import render
from pleach.server.node import BrokerNode
from pleach.server.settings import host_names
from pleach.server.traffic_notes import TrafficNotes

BACKLOG = 1_024  # connections that the system keeps for us; of one more, the client tries again after a second
ACCEPTED_AT_ONCE_MAX = 128
RECEIVE_BYTES_MAX = 8_192  # that are read ahead
REQUEST_SECONDS_MAX = 5.0  # to send a request, and again to take the answer
HOST_REMEDY = "ask by an address, or by a name that the broker was given with --admin-advertise"

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

    def current(content: Callable[[BrokerNode], object]) -> HttpResponse:
        refresh()
        return json_page(HTTPStatus.OK, content(node))

    pages = (
        reads("/healthz", shown(lambda: json_page(HTTPStatus.OK, {"alive": True}))),
        reads("/readyz", shown(ready)),
        reads("/metrics", shown(metrics)),
        reads("/status", shown(lambda: current(status))),
        reads("/glance", shown(lambda: current(glance))),
    )
    name, features = node.broker.name, node.features
    operations = operation_pages(node)
    parts = (
        operations,
        ComponentPages(node.broker, operations),
        TelemetryPages(name, node.endpoint.epoch, features[TrafficNotes]),
        HealingPages(name, features[Guardian]),
        FaultPages(node.broker, features.get(InjectedFaults), lambda: node.settings),
    )
    routes = (*pages, *(route for part in parts for route in part.routes), *more)
    return Site(routes, Hosts(host_names(node.settings), HOST_REMEDY))


def operation_pages(node: BrokerNode) -> OperationPages:
    absent, settings = node.features[AbsentClients], lambda: node.settings
    return OperationPages(node.broker, node.directory, node.links, node.operations, absent, settings)


class AdminServer:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._connections = OpenConnections()
        self._accepting: set[asyncio.Future[object]] = set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        loop, listening = asyncio.get_running_loop(), list[int]()
        patience = REQUEST_SECONDS_MAX if tls is not None else None

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = RequestReader(limit=RECEIVE_BYTES_MAX, loop=loop)
            return asyncio.StreamReaderProtocol(reader, lambda _, writer: self._serve(reader, writer), loop=loop)

        def first_protocol() -> asyncio.StreamReaderProtocol:
            for connection in (each for fileno in listening for each in accepted(fileno)):
                self._begin(loop.connect_accepted_socket(protocol, connection, ssl=tls, ssl_handshake_timeout=patience))
            return protocol()

        server = await loop.create_server(
            first_protocol, host, port, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=patience
        )
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
            await self._exchange(HttpExchange(reader, writer), peer[0], connection)
        except (OSError, TimeoutError, asyncio.CancelledError):
            transport.abort()
        finally:
            self._connections.closed(connection)

    async def _exchange(self, exchange: HttpExchange, address: str, connection: OpenConnection) -> None:
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            admitted = await self._admitted(exchange, address)
        self._connections.answering(connection)
        page = admitted if isinstance(admitted, HttpResponse) else await self._answer(*admitted)
        if isinstance(page, HttpStream):
            await exchange.stream(page)
        else:
            self._connections.sending(connection, len(page.body))
            exchange.respond(page)
        async with asyncio.timeout(REQUEST_SECONDS_MAX):  # a client that does not read is cut off
            await exchange.close()

    async def _admitted(self, exchange: HttpExchange, address: str) -> tuple[Route, HttpRequest] | HttpResponse:
        """The request, if whoever sent it may; else the refusal."""
        asked = await exchange.head()
        if isinstance(asked, HttpResponse):
            return asked
        site, routes = self._site, self._site.at(asked.path)
        route, caller = routes.get(asked.method), caller_of(address, asked.fields)
        if reason := site.hosts.why_unknown(asked.fields):
            return failure(HTTPStatus.MISDIRECTED_REQUEST, site.hosts.remedy, reason)
        if route is None:
            return _unrouted(site, list(routes))
        if not caller.may(route.verb):
            return failure(HTTPStatus.FORBIDDEN, "ask an operator who may", f"{asked.path} needs {route.verb!r}")
        if route.method is HTTPMethod.GET:
            return route, asked._replace(caller=caller)
        if reason := why_foreign(asked.fields):
            return failure(HTTPStatus.FORBIDDEN, "use `pleach overlay`, or the dashboard's own page", reason)
        body = await exchange.body(asked)
        return body if isinstance(body, HttpResponse) else (route, asked._replace(body=body, caller=caller))

    async def _answer(self, route: Route, asked: HttpRequest) -> HttpResponse | HttpStream:
        """What is public is answered at once, so that it is answered always."""
        if route.verb is not None and self._connections.is_busy:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "try again when some have ended", "too many requests")
        return await route.handler(asked)


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
