"""The dashboard over HTTP, as a mount of an operators' port (server/http/server.py).

GET  /dashboard/           the page, and beside it the files of page/
GET  /dashboard/stream     the snapshot: server-sent events `whole`, `patch` and `pulse` (stream.py)
POST /dashboard/plan       a request (forms.py): the plan that it would take, and a name for it
POST /dashboard/apply      {"draft": NAME}: carry that plan out
POST /dashboard/broker     {"broker": NAME}: the whole status of a broker
POST /dashboard/interest   {"filter": TEXT}: which clients would get such events
POST /dashboard/film       {"run": NAME}: a recorded run as frames

Rule 1: the Host must be an address, or a name from the settings (net/allowed_hosts.py).
Rule 2: a change is a POST with a JSON body, with the token that only our page has, and from our own origin. A page of
        another site has no token, and browsers do not let it send such a header.
Rule 3: no page may frame ours; ours loads nothing from elsewhere, and runs no inline scripts.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from pleach.core.events.language import parse_filter
from pleach.errors import FilterError, InvalidInputError, PleachError
from pleach.net.allowed_hosts import Hosts, why_foreign
from pleach.server.http.page import HttpRequest, HttpResponse, HttpStream, Mount, failure, json_page
from pleach.web.forms import read_request
from pleach.web.plan_runs import PlanRuns
from pleach.web.source import Source
from pleach.web.stream import SnapshotStream

TOP = "/dashboard"
INDEX = "index.html"
TOKEN_PLACE = b"{{token}}"
KINDS = MappingProxyType(
    {
        "html": "text/html; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)


class Dashboard:
    def __init__(self, source: Source, names: Iterable[str] = ()) -> None:
        """`names`: see AccessCheck."""
        self._source = source
        self._access = AccessCheck(names)
        self._snapshots = SnapshotStream(source)
        self._runs = PlanRuns(source, self._snapshots.wake)
        self._snapshots.complete, self._snapshots.is_busy = self._runs.complete, self._runs.is_busy
        self._files = page_files()
        self._actions: dict[str, Callable[[dict[str, Any]], Awaitable[object]]] = {
            "plan": self._plan,
            "apply": self._apply,
            "broker": self._broker,
            "interest": self._interest,
            "film": self._replay,
        }

    @property
    def mounts(self) -> dict[str, Mount]:
        return {TOP: self.answer}

    async def answer(self, asked: HttpRequest) -> HttpResponse | HttpStream:
        answered = await self._answered(asked)
        return answered._replace(fields={**FIELDS, **answered.fields})

    async def _answered(self, asked: HttpRequest) -> HttpResponse | HttpStream:
        if reason := self._access.why_not_seen(asked.fields):
            remedy = "open it by its address, or allow that name with --name"
            return failure(HTTPStatus.MISDIRECTED_REQUEST, remedy, reason)
        if asked.path == TOP:
            return HttpResponse(HTTPStatus.MOVED_PERMANENTLY, KINDS["html"], b"", {"Location": f"{TOP}/"})
        name = asked.path.removeprefix(f"{TOP}/")
        match asked.method:
            case "GET" if name == "stream":
                return self._stream()
            case "GET" if (name or INDEX) in self._files:
                return self._file(name or INDEX)
            case "POST" if name in self._actions:
                return await self._act(name, asked)
        is_known = name in self._actions or name in self._files or name == "stream"
        code = HTTPStatus.METHOD_NOT_ALLOWED if is_known else HTTPStatus.NOT_FOUND
        return failure(code, f"the dashboard is at {TOP}/")

    def _file(self, name: str) -> HttpResponse:
        body = self._files[name]
        if name == INDEX:  # only this page contains the token
            body = body.replace(TOKEN_PLACE, self._access.token.encode())
        return HttpResponse(HTTPStatus.OK, KINDS[name.rpartition(".")[2]], body)

    def _stream(self) -> HttpResponse | HttpStream:
        if self._snapshots.is_full:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "close another one", "too many dashboards are open")
        return HttpStream("text/event-stream", self._snapshots.watch())

    # Actions ---------------------------------------------------------------------------------------------------

    async def _act(self, name: str, asked: HttpRequest) -> HttpResponse:
        if reason := self._access.why_not_done(asked.fields):
            return failure(HTTPStatus.FORBIDDEN, "load the dashboard again, and ask from there", reason)
        try:
            body = msgspec.json.decode(asked.body, type=dict[str, Any])
            return json_page(HTTPStatus.OK, await self._actions[name](body))
        except FilterError as error:
            return failure(HTTPStatus.BAD_REQUEST, "correct the filter", error.reason, column=error.column)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(HTTPStatus.BAD_REQUEST, "send a JSON object", str(error))
        except PleachError as error:
            return failure(HTTPStatus.CONFLICT, "", str(error))

    async def _plan(self, body: dict[str, Any]) -> object:
        return await self._runs.draft(read_request(body))

    async def _apply(self, body: dict[str, Any]) -> object:
        return self._runs.carry_out(_text(body, "draft"))

    async def _broker(self, body: dict[str, Any]) -> object:
        return await self._source.detail(_text(body, "broker"))

    async def _interest(self, body: dict[str, Any]) -> object:
        return {"clients": await self._source.interested(parse_filter(_text(body, "filter")))}

    async def _replay(self, body: dict[str, Any]) -> object:
        return await self._source.replay(_text(body, "run"))


def page_files() -> dict[str, bytes]:
    """The files that a browser may load, by name; read once."""
    page = files("pleach.web") / "page"
    return {f.name: f.read_bytes() for f in page.iterdir() if f.name.rpartition(".")[2] in KINDS}


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise InvalidInputError(f"{key}: must be a text")
    return value


# Access ---------------------------------------------------------------------------------------------------------------


TOKEN_FIELD = "x-pleach-token"  # noqa: S105 - the name of a header

FIELDS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class AccessCheck:
    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: see Hosts."""
        self._hosts = Hosts(names)
        self.token = secrets.token_urlsafe(24)

    def why_not_seen(self, fields: Mapping[str, str]) -> str:
        """Why this request is not answered; empty if it is."""
        return self._hosts.why_unknown(fields)

    def why_not_done(self, fields: Mapping[str, str]) -> str:
        """Why this request may change nothing; empty if it may."""
        if reason := why_foreign(fields):
            return reason
        if not hmac.compare_digest(fields.get(TOKEN_FIELD, "").encode(), self.token.encode()):
            return "the page is from a former process: reload it"
        return ""
