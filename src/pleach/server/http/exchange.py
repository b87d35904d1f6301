"""One HTTP/1.1 request and its answer on one connection: h11 parses and frames, this bounds.

A connection carries one request: what follows it is never read as another one, so that nothing can be smuggled in
behind it. A body has a Content-Length; a request with a Transfer-Encoding is refused, and so is one with two Hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from http import HTTPStatus

import h11

from pleach.server.http.page import JSON, HttpRequest, HttpResponse, HttpStream, failure

HEAD_BYTES_MAX = 8_192
BODY_BYTES_MAX = 8_192
READ_BYTES = 4_096
UNREAD_BYTES_MAX = 1_048_576  # of a request that was refused before its end
PIECE_SECONDS_MAX = 5.0  # to take a piece of a stream

FIELDS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class HttpExchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._method = ""

    # The request -----------------------------------------------------------------------------------------------

    async def head(self) -> HttpRequest | HttpResponse:
        """The request without its body, or what is wrong with it. Raises ConnectionError where there is none."""
        try:
            event = await self._next()
        except h11.RemoteProtocolError as error:
            code = HTTPStatus(error.error_status_hint)
            return failure(code, "this is an HTTP/1.1 port for operators", str(error))
        if not isinstance(event, h11.Request):
            raise ConnectionAbortedError
        self._method = event.method.decode("ascii")
        fields = _joined(event.headers)
        if "transfer-encoding" in fields:
            code = HTTPStatus.BAD_REQUEST if "content-length" in fields else HTTPStatus.LENGTH_REQUIRED
            return failure(code, "send Content-Length, and no Transfer-Encoding")
        path = event.target.decode("latin-1").partition("?")[0]
        return HttpRequest(self._method, path, fields=fields)

    async def body(self, asked: HttpRequest) -> bytes | HttpResponse:
        if asked.fields.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return failure(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send Content-Type: {JSON}, and a JSON object")
        length = asked.fields.get("content-length", "")
        if not length:
            return failure(HTTPStatus.LENGTH_REQUIRED, "send Content-Length: how many bytes the body has")
        if int(length) > BODY_BYTES_MAX:
            return failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_BYTES_MAX:,} bytes")
        if self._wire.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        received = bytearray()
        try:
            while isinstance(event := await self._next(), h11.Data):
                received += event.data
        except h11.RemoteProtocolError:  # it hung up
            raise ConnectionAbortedError from None
        return bytes(received)

    async def _next(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            self._wire.receive_data(await self._reader.read(READ_BYTES))
        return event

    # The answer ------------------------------------------------------------------------------------------------

    def respond(self, page: HttpResponse) -> None:
        fields = {"Content-Type": page.kind, "Content-Length": str(len(page.body)), **page.fields}
        self._begin(page.status, fields)
        if self._method != "HEAD":
            self._send(h11.Data(data=page.body))
        self._send(h11.EndOfMessage())

    async def stream(self, flow: HttpStream, is_permitted: Callable[[], bool] = lambda: True) -> None:
        """Each piece must be taken before the next one is made, so that nothing piles up for a slow client.

        `is_permitted`: asked before each piece; the stream ends where it is not.
        """
        self._begin(HTTPStatus.OK, {"Content-Type": flow.kind, **flow.fields})
        async with aclosing(flow.pieces) as pieces:
            async for piece in pieces:
                if not is_permitted():
                    break
                self._send(h11.Data(data=piece))
                async with asyncio.timeout(PIECE_SECONDS_MAX):
                    await self._writer.drain()
        self._send(h11.EndOfMessage())

    async def close(self) -> None:
        """The answer must have been taken. A request that was not read to its end would reset it on its way."""
        if not self._is_received():
            await self._skip()
        self._writer.close()
        await self._writer.wait_closed()

    def _is_received(self) -> bool:
        """h11 tells the end of a request without a body as an event of its own."""
        if self._wire.their_state is h11.SEND_BODY:
            self._wire.next_event()
        return self._wire.their_state is h11.DONE

    async def _skip(self) -> None:
        await self._writer.drain()
        self._check_open()
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = UNREAD_BYTES_MAX
        while left > 0 and (data := await self._reader.read(READ_BYTES)):
            left -= len(data)

    def _begin(self, status: HTTPStatus, fields: Mapping[str, str]) -> None:
        headers = list({**FIELDS, **fields}.items())
        self._send(h11.Response(status_code=status.value, headers=headers, reason=status.phrase))

    def _send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self._check_open()
        self._writer.write(self._wire.send(event))

    def _check_open(self) -> None:
        """Transports differ in what they do when they are used after their end."""
        if self._writer.is_closing():
            raise ConnectionAbortedError


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields
