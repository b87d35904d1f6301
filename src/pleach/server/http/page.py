"""Requests and responses of the admin port, streams, handlers, and the one form of errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from pleach.server.http.caller import NOBODY, Caller

JSON = "application/json"
Body = TypeVar("Body", bound=msgspec.Struct)


class HttpRequest(NamedTuple):
    """`fields`: the header, names in lower case; values of a repeated field are joined by commas (RFC 9110 §5.3).

    `id`: in the audit log. `is_secret`: whether its body is not for logs.
    """

    method: str
    path: str
    body: bytes = b""
    fields: Mapping[str, str] = {}
    caller: Caller = NOBODY
    id: str = ""
    is_secret: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def told(self) -> bytes:
        """The body, for logs."""
        return b"" if self.is_secret else self.body


class HttpResponse(NamedTuple):
    """`caller`: who has logged in by this request."""

    status: HTTPStatus
    kind: str
    body: bytes
    fields: Mapping[str, str] = {}
    caller: Caller | None = None


class HttpStream(NamedTuple):
    """A body without an end: sent piece by piece, until the client closes the connection."""

    kind: str
    pieces: AsyncGenerator[bytes]
    fields: Mapping[str, str] = {}


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse | HttpStream]]


def json_page(code: HTTPStatus, value: object) -> HttpResponse:
    return HttpResponse(code, JSON, msgspec.json.encode(value) + b"\n")


def failure(code: HTTPStatus, remedy: str, error: str = "", **more: object) -> HttpResponse:
    """What is wrong, what would be right, and whatever else is known."""
    return json_page(code, {"error": error or code.phrase, "remedy": remedy, **more})


def shown(content: Callable[[], HttpResponse | HttpStream]) -> Handler:
    """A handler for a page that is the same for whoever asks."""

    async def answer(_: HttpRequest) -> HttpResponse | HttpStream:
        return content()

    return answer


def posted(
    kind: type[Body], act: Callable[[Body], Awaitable[HttpResponse]], subject: Callable[[Body], str] | None = None
) -> Handler:
    """A handler that takes a body of this kind; any other body is answered with what would be right.

    `subject`: the client or component that it is about, which must be one of the caller's tenant.
    """

    async def answer(asked: HttpRequest) -> HttpResponse:
        body = decoded(asked.body, kind)
        if isinstance(body, HttpResponse):
            return body
        if subject is not None and not asked.caller.sees(subject(body)):
            error = f"{subject(body)!r} is not of tenant {asked.caller.tenant!r}"
            return failure(HTTPStatus.FORBIDDEN, "ask an operator of its tenant, or of the network", error)
        return await act(body)

    return answer


def decoded(data: bytes, kind: type[Body]) -> Body | HttpResponse:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wanted = ", ".join(
            f"{field.name} ({'required' if field.required else 'optional'})" for field in msgspec.structs.fields(kind)
        )
        return failure(HTTPStatus.BAD_REQUEST, f"send a JSON object with {wanted or 'nothing in it'}", str(error))
