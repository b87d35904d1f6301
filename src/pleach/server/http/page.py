"""What an operator's port is asked, and answers: a page, or a flow that goes on; and the one form that errors have."""

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
    """A body without an end: sent piece by piece, until its reader goes."""

    kind: str
    pieces: AsyncGenerator[bytes]
    fields: Mapping[str, str] = {}


Mount: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse | HttpStream]]


class Site(NamedTuple):
    """Pages by path; families of pages by what comes before the last part of a path; actions by path.

    Mounts answer for all paths under theirs, whatever the method. `hosts`: by which names it may be asked; mounts
    see to it themselves.
    """

    pages: Mapping[str, Callable[[], HttpResponse]]
    families: Mapping[str, Callable[[str], HttpResponse]] = {}
    actions: Mapping[str, Callable[[bytes], Awaitable[HttpResponse]]] = {}
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


def decoded(data: bytes, kind: type[Body]) -> Body | HttpResponse:
    """What was sent, or the page that says what would be right."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wanted = ", ".join(
            f"{field.name} ({'required' if field.required else 'optional'})" for field in msgspec.structs.fields(kind)
        )
        return failure(HTTPStatus.BAD_REQUEST, f"send a JSON object with {wanted or 'nothing in it'}", str(error))
