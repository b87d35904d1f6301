"""Ask the operators' port of a broker: one small HTTP request, one JSON answer, bounded in size and time."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from pleach.errors import SettingsError, UnreachableError
from pleach.net.addresses import parse_address, why
from pleach.net.own_tls import open_streams

ANSWER_BYTES_MAX = 64 * 1_048_576
SECONDS_MAX = 5.0


class Answer(NamedTuple):
    code: int
    value: Any

    @property
    def is_ok(self) -> bool:
        return self.code == 200


async def ask(address: str, path: str, body: object = None, *, seconds_max: float = SECONDS_MAX) -> Answer:
    """GET a page, or POST a body. Raises UnreachableError where nobody answers, or no broker."""
    try:
        async with asyncio.timeout(seconds_max):
            head, content = await _exchange(address, _request(address, path, body))
        _, code, *_ = head.split(b" ", 2)
        return Answer(int(code), msgspec.json.decode(content))
    except TimeoutError:
        raise UnreachableError(address, f"no answer within {seconds_max:g} s") from None
    except OSError as error:
        raise UnreachableError(address, why(error)) from None
    except (msgspec.DecodeError, ValueError):
        raise UnreachableError(address, "what answers there is no broker's admin port") from None


def _request(address: str, path: str, body: object) -> bytes:
    content = b"" if body is None else msgspec.json.encode(body)
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


async def _exchange(address: str, request: bytes) -> tuple[bytes, bytes]:
    try:
        host, port = parse_address(address, key="admin address")
    except SettingsError as error:
        raise UnreachableError(address, f"{error.reason}; {error.remedy}") from None
    reader, writer = await open_streams(host, port)
    answer = bytearray()
    try:
        writer.write(request)
        while data := await reader.read(65_536):
            answer += data
            if len(answer) > ANSWER_BYTES_MAX:
                raise UnreachableError(address, f"an answer of more than {ANSWER_BYTES_MAX:,} bytes")
    finally:
        writer.close()
    head, _, content = bytes(answer).partition(b"\r\n\r\n")
    return head, content
