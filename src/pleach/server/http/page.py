"""Requests and responses of the admin port, streams, and the one form of errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from pleach.net.allowed_hosts import Hosts

JSON = "application/json"
Body = TypeVar("Body", bound=msgspec.Struct)


class HttpRequest(NamedTuple):
    """`fields`: the header, names in lower case."""

    method: str
    path: str
    body: bytes = b""
    fields: Mapping[str, str] = {}


class HttpResponse(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes
    fields: Mapping[str, str] = {}


class HttpStream(NamedTuple):
    """A body without an end: sent piece by piece, until the client closes the connection."""

    kind: str
    pieces: AsyncGenerator[bytes]
    fields: Mapping[str, str] = {}


Mount: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse | HttpStream]]
Action: TypeAlias = Callable[[bytes], Awaitable[HttpResponse]]


class Site(NamedTuple):
    """Pages by path; families of pages by what comes before the last part of a path; actions by path.

    Mounts answer for all paths under theirs, whatever the method. `hosts`: the names that the site answers to; mounts
    check them themselves.
    """

    pages: Mapping[str, Callable[[], HttpResponse]]
    families: Mapping[str, Callable[[str], HttpResponse]] = {}
    actions: Mapping[str, Action] = {}
    mounts: Mapping[str, Mount] = {}
    hosts: Hosts = Hosts()

    def mount_of(self, path: str) -> Mount | None:
        return next((m for top, m in self.mounts.items() if path == top or path.startswith(f"{top}/")), None)

    @property
    def listed(self) -> str:
        families = (f"{family}/NAME" for family in self.families)
        actions = (f"POST {action}" for action in self.actions)
        return ", ".join((*self.pages, *families, *actions, *self.mounts))


def json_page(code: HTTPStatus, value: object) -> HttpResponse:
    return HttpResponse(code, JSON, msgspec.json.encode(value) + b"\n")


def failure(code: HTTPStatus, remedy: str, error: str = "", **more: object) -> HttpResponse:
    """What is wrong, what would be right, and whatever else is known."""
    return json_page(code, {"error": error or code.phrase, "remedy": remedy, **more})


def posted(kind: type[Body], act: Callable[[Body], Awaitable[HttpResponse]]) -> Action:
    """An action that takes a body of this kind; any other body is answered with what would be right."""

    async def answer(data: bytes) -> HttpResponse:
        body = _decoded(data, kind)
        return body if isinstance(body, HttpResponse) else await act(body)

    return answer


def _decoded(data: bytes, kind: type[Body]) -> Body | HttpResponse:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wanted = ", ".join(
            f"{field.name} ({'required' if field.required else 'optional'})" for field in msgspec.structs.fields(kind)
        )
        return failure(HTTPStatus.BAD_REQUEST, f"send a JSON object with {wanted or 'nothing in it'}", str(error))
