"""A small HTTP/1.1 server for operators: GET only, bounded requests, one request per connection.

/healthz   the process is alive                /metrics   Prometheus text
/readyz    200 or 503, with reasons            /status    everything, as JSON
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.live.metrics import render
from pleach.live.node import BrokerNode
from pleach.live.status import metrics, status, unready

REQUEST_BYTES_MAX = 8_192
REQUEST_SECONDS_MAX = 5.0
CONNECTIONS_MAX = 64

JSON = "application/json"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Page(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes


Pages: TypeAlias = Mapping[str, Callable[[], Page]]


def pages_of(node: BrokerNode, refresh: Callable[[], None]) -> Pages:
    """`refresh`: brings the counters up to date that are not counted one by one."""

    def ready() -> Page:
        reasons = unready(node)
        code = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json(code, {"ready": not reasons, "reasons": reasons})

    def numbers() -> Page:
        refresh()
        return Page(HTTPStatus.OK, PROMETHEUS, render(metrics(node)).encode())

    def everything() -> Page:
        refresh()
        return _json(HTTPStatus.OK, status(node))

    return {
        "/healthz": lambda: _json(HTTPStatus.OK, {"alive": True}),
        "/readyz": ready,
        "/metrics": numbers,
        "/status": everything,
    }


class AdminServer:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._open = 0

    async def listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await self._head(reader)
                writer.write(_response(self._answer(head)))
                writer.close()
                await writer.wait_closed()  # within the time, too: who asks and does not read is cut off
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._open -= 1

    async def _head(self, reader: asyncio.StreamReader) -> bytes | HTTPStatus:
        if self._open > CONNECTIONS_MAX:
            return HTTPStatus.SERVICE_UNAVAILABLE
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def _answer(self, head: bytes | HTTPStatus) -> Page:
        if isinstance(head, HTTPStatus):
            return _failure(head, "try again with less")
        match head.split(b"\r\n", 1)[0].split(b" "):
            case [b"GET", target, (b"HTTP/1.0" | b"HTTP/1.1")]:
                page = self._pages.get(target.partition(b"?")[0].decode("latin-1"))
                return page() if page else _failure(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._pages)}")
            case [_, _, (b"HTTP/1.0" | b"HTTP/1.1")]:
                return _failure(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is understood here")
            case _:
                return _failure(HTTPStatus.BAD_REQUEST, "this is an HTTP/1.1 port for operators")


def _json(code: HTTPStatus, value: object) -> Page:
    return Page(code, JSON, msgspec.json.encode(value) + b"\n")


def _failure(code: HTTPStatus, remedy: str) -> Page:
    return _json(code, {"error": code.phrase, "remedy": remedy})


def _response(page: Page) -> bytes:
    allow = "Allow: GET\r\n" if page.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\nContent-Type: {page.kind}\r\n"
        f"Content-Length: {len(page.body)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + page.body
