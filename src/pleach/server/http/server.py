"""A small HTTP/1.1 server for operators: bounded requests, one request per connection.

/healthz   the process is alive                /metrics   Prometheus text
/readyz    200 or 503, with reasons            /status    everything, as JSON
/overlay/… reconfigurations: operations.py     /glance    what changes, as JSON: status.py
           stand-ins: healing.py               /components what the broker hosts: components.py
/traffic/N, /distances: telemetry.py           /debug/…   faults on purpose, where they are allowed: faults.py

Whoever reaches this port may reconfigure the tree; but not a web page that somebody has open. A body must be declared
as JSON, which no page can send to another site without asking first; the page that asks for an action must not be of
another site; and a request must use a host name of ours (net/allowed_hosts.py), except for monitoring, which comes by
any name and is told of no client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus

from pleach.net.allowed_hosts import Hosts, why_foreign
from pleach.server.absence import AbsentClients
from pleach.server.healing.guardian import Guardian
from pleach.server.http.components import ComponentPages
from pleach.server.http.faults import FaultPages, InjectedFaults
from pleach.server.http.healing import HealingPages
from pleach.server.http.operations import OperationPages
from pleach.server.http.page import JSON, HttpRequest, HttpResponse, HttpStream, Mount, Site, failure, json_page
from pleach.server.http.status import gauges, glance, status, unready
from pleach.server.http.telemetry import TelemetryPages
from pleach.server.metrics import render
from pleach.server.node import BrokerNode
from pleach.server.settings import host_names
from pleach.server.traffic_notes import TrafficNotes

REQUEST_BYTES_MAX = 8_192  # of a head, and of a body
REQUEST_SECONDS_MAX = 5.0  # to send a request, and again to take the answer
CONNECTIONS_MAX = 64
FOR_MONITORS = ("/healthz", "/readyz", "/metrics")

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def site_of(node: BrokerNode, refresh: Callable[[], None], mounts: Mapping[str, Mount] | None = None) -> Site:
    """`refresh`: brings the counters up to date that are not counted one by one."""

    def ready() -> HttpResponse:
        reasons = unready(node)
        code = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return json_page(code, {"ready": not reasons, "reasons": reasons})

    def metrics() -> HttpResponse:
        refresh()
        return HttpResponse(HTTPStatus.OK, PROMETHEUS, render(gauges(node), node.counters).encode())

    def shown(content: Callable[[BrokerNode], object]) -> HttpResponse:
        refresh()
        return json_page(HTTPStatus.OK, content(node))

    pages = {
        "/healthz": lambda: json_page(HTTPStatus.OK, {"alive": True}),
        "/readyz": ready,
        "/metrics": metrics,
        "/status": lambda: shown(status),
        "/glance": lambda: shown(glance),
    }
    name, features = node.broker.name, node.features
    operations = operation_pages(node)
    components = ComponentPages(node.broker, operations)
    telemetry = TelemetryPages(name, node.endpoint.epoch, features[TrafficNotes])
    healing = HealingPages(name, features[Guardian])
    faults = FaultPages(node.broker, features.get(InjectedFaults), lambda: node.settings)
    parts = (operations, components, telemetry, healing, faults)
    return Site(
        {**pages, **operations.pages, **components.pages},
        {**operations.families, **telemetry.families},
        {path: action for part in parts for path, action in part.actions.items()},
        mounts or {},
        Hosts(host_names(node.settings)),
    )


def operation_pages(node: BrokerNode) -> OperationPages:
    absent, settings = node.features[AbsentClients], lambda: node.settings
    return OperationPages(node.broker, node.directory, node.links, node.operations, absent, settings)


class AdminServer:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._open = 0

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        patience = REQUEST_SECONDS_MAX if tls is not None else None
        return await asyncio.start_server(
            self._serve, host, port, limit=REQUEST_BYTES_MAX, ssl=tls, ssl_handshake_timeout=patience
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                asked = await self._hear(reader)
            page = asked if isinstance(asked, HttpResponse) else await self._answer(asked)
            if isinstance(page, HttpStream):
                await _flow(writer, page)
            async with asyncio.timeout(REQUEST_SECONDS_MAX):  # a client that does not read is cut off
                writer.write(b"" if isinstance(page, HttpStream) else _response(page))
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._open -= 1

    async def _hear(self, reader: asyncio.StreamReader) -> HttpRequest | HttpResponse:
        if self._open > CONNECTIONS_MAX:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "try again with less")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return failure(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "try again with less")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        match first.split(" "):
            case ["POST", target, "HTTP/1.0" | "HTTP/1.1"] if self._takes_body(path := target.partition("?")[0]):
                body = await _body(reader, fields)
                return body if isinstance(body, HttpResponse) else HttpRequest("POST", path, body, fields)
            case [method, target, "HTTP/1.0" | "HTTP/1.1"]:
                return HttpRequest(method, target.partition("?")[0], fields=fields)
            case _:
                return failure(HTTPStatus.BAD_REQUEST, "this is an HTTP/1.1 port for operators")

    def _takes_body(self, path: str) -> bool:
        return path in self._site.actions or self._site.mount_of(path) is not None

    async def _answer(self, asked: HttpRequest) -> HttpResponse | HttpStream:
        site, (method, path, body, _) = self._site, asked
        if mount := site.mount_of(path):
            return await mount(asked)
        if path not in FOR_MONITORS and (reason := site.hosts.why_unknown(asked.fields)):
            remedy = "ask by an address, or by a name that the broker was given with --admin-advertise"
            return failure(HTTPStatus.MISDIRECTED_REQUEST, remedy, reason)
        family, _, member = path.rpartition("/")
        match method:
            case "GET" if path in site.pages:
                return site.pages[path]()
            case "GET" if family in site.families:
                return site.families[family](member)
            case "POST" if path in site.actions:
                return _refused(asked.fields) or await site.actions[path](body)
        is_known = path in site.pages or path in site.actions or family in site.families
        code = HTTPStatus.METHOD_NOT_ALLOWED if is_known else HTTPStatus.NOT_FOUND
        return failure(code, f"there are {site.listed}")


def _refused(fields: Mapping[str, str]) -> HttpResponse | None:
    if reason := why_foreign(fields):
        return failure(HTTPStatus.FORBIDDEN, "use `pleach overlay`, or the dashboard's own page", reason)
    return None


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes | HttpResponse:
    if fields.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return failure(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send Content-Type: {JSON}, and a JSON object")
    length = fields.get("content-length", "")
    if not length.isascii() or not length.isdigit():
        return failure(HTTPStatus.LENGTH_REQUIRED, "send Content-Length: how many bytes the body has")
    if len(length) > 6 or int(length) > REQUEST_BYTES_MAX:
        return failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {REQUEST_BYTES_MAX:,} bytes")
    return await reader.readexactly(int(length))


def _response(page: HttpResponse) -> bytes:
    allow = {"Allow": "GET, POST"} if page.status is HTTPStatus.METHOD_NOT_ALLOWED else {}
    fields = {"Content-Type": page.kind, "Content-Length": str(len(page.body)), **allow, **page.fields}
    return _head(page.status, fields) + page.body


def _head(status: HTTPStatus, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{k}: {v}" for k, v in fields.items()), "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode()


async def _flow(writer: asyncio.StreamWriter, flow: HttpStream) -> None:
    """Each piece must be taken before the next one is made, so that nothing piles up for a slow client."""
    writer.write(_head(HTTPStatus.OK, {"Content-Type": flow.kind, **flow.fields}))
    async with aclosing(flow.pieces) as pieces:
        async for piece in pieces:
            writer.write(piece)
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                await writer.drain()
