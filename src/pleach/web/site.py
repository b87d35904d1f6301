"""The dashboard over HTTP, as routes of an operators' port (server/http/routes.py).

GET  /dashboard/           the page, and beside it the files of page/; who has not logged in is sent to login.html
GET  /dashboard/stream     the snapshot: server-sent events `whole`, `patch` and `pulse` (stream.py)
POST /dashboard/plan       a request (forms.py): the plan that it would take, and a name for it
POST /dashboard/apply      {"draft": NAME}: carry that plan out
POST /dashboard/broker     {"broker": NAME}: the whole status of a broker
POST /dashboard/interest   {"filter": TEXT}: which clients would get such events
POST /dashboard/film       {"run": NAME}: a recorded run as frames

Rule 1: as all of the port, it is there for a Host that is an address, or a name from the settings, and a POST comes
        from our own origin (server/http/server.py).
Rule 2: a POST has the token that only our page has. A page of another site has no token, and browsers do not let it
        send such a header.
Rule 3: no page may frame ours; ours loads nothing from elsewhere, and runs no inline scripts (server/http/exchange.py).
Rule 4: a plan is carried out for who may do what is in it, and in the name of who has logged in with a token: other
        brokers judge by that, and record it. Buttons are offered for what one may do.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from html import escape
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from pleach.access.principals import Verb
from pleach.core.events.language import parse_filter
from pleach.errors import DeniedError, FilterError, InvalidInputError, PleachError
from pleach.net.own_tls import own_token
from pleach.server.http.caller import Caller
from pleach.server.http.page import HttpRequest, HttpResponse, HttpStream, failure, json_page, shown
from pleach.server.http.routes import Route, for_tenants, posts, reads
from pleach.server.http.status import told_to
from pleach.web.forms import VERBS, read_request
from pleach.web.plan_runs import PlanRuns
from pleach.web.source import Source
from pleach.web.stream import SnapshotStream

TOP = "/dashboard"
INDEX = "index.html"
LOGIN = "login.html"
PUBLIC_FILES = (LOGIN, "login.js", "style.css", "icon.svg")  # what is needed to log in
FOR_TENANTS = ("move",)  # what operators of a tenant can ask for here
TOKEN_PLACE = b"{{token}}"
PRINCIPAL_PLACE, WAY_PLACE = b"{{principal}}", b"{{way}}"
TOKEN_FIELD = "x-pleach-token"  # noqa: S105 - the name of a header
KINDS = MappingProxyType(
    {
        "html": "text/html; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)

Action: TypeAlias = Callable[[dict[str, Any], Caller], Awaitable[object]]


class Dashboard:
    def __init__(self, source: Source) -> None:
        self._source = source
        self.token = secrets.token_urlsafe(24)
        self._snapshots = SnapshotStream(source)
        self._runs = PlanRuns(source, self._snapshots.wake)
        self._snapshots.complete, self._snapshots.is_busy = self._runs.complete, self._runs.is_busy
        self._files = page_files()

    @property
    def routes(self) -> Sequence[Route]:
        moved = HttpResponse(HTTPStatus.MOVED_PERMANENTLY, KINDS["html"], b"", {"Location": f"{TOP}/"})
        pages = (
            reads(TOP, shown(lambda: moved))._replace(log_in_at=f"{TOP}/{LOGIN}"),
            reads(f"{TOP}/", self._page)._replace(log_in_at=f"{TOP}/{LOGIN}"),
            reads(f"{TOP}/{INDEX}", self._page)._replace(log_in_at=f"{TOP}/{LOGIN}"),
            *(self._route(name) for name in sorted(self._files) if name != INDEX),
            reads(f"{TOP}/stream", self._stream),
            posts(f"{TOP}/plan", Verb.READ, partial(self._act, self._plan)),
            posts(f"{TOP}/apply", Verb.READ, partial(self._act, self._apply))._replace(is_judged_within=True),
            posts(f"{TOP}/broker", Verb.READ, partial(self._act, self._broker)),
            posts(f"{TOP}/interest", Verb.READ, partial(self._act, self._interest)),
        )
        return (*map(for_tenants, pages), posts(f"{TOP}/film", Verb.READ, partial(self._act, self._replay)))

    def _route(self, name: str) -> Route:
        page = HttpResponse(HTTPStatus.OK, KINDS[name.rpartition(".")[2]], self._files[name])
        route = reads(f"{TOP}/{name}", shown(lambda: page))
        return route._replace(verb=None) if name in PUBLIC_FILES else route

    async def _page(self, asked: HttpRequest) -> HttpResponse:
        """Only this page contains the token."""
        told = {TOKEN_PLACE: self.token, PRINCIPAL_PLACE: asked.caller.principal, WAY_PLACE: asked.caller.way}
        body = self._files[INDEX]
        for place, text in told.items():
            body = body.replace(place, escape(text).encode())
        return HttpResponse(HTTPStatus.OK, KINDS["html"], body)

    async def _stream(self, asked: HttpRequest) -> HttpResponse | HttpStream:
        if self._snapshots.is_full:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "close another one", "too many dashboards are open")
        return HttpStream("text/event-stream", self._snapshots.watch(partial(seen_by, asked.caller)))

    # Actions ---------------------------------------------------------------------------------------------------

    async def _act(self, act: Action, asked: HttpRequest) -> HttpResponse:
        if not hmac.compare_digest(asked.fields.get(TOKEN_FIELD, "").encode(), self.token.encode()):
            error = "the page is from a former process: reload it"
            return failure(HTTPStatus.FORBIDDEN, "load the dashboard again, and ask from there", error)
        if token := asked.caller.token:
            own_token.set(lambda: token)
        try:
            body = msgspec.json.decode(asked.body, type=dict[str, Any])
            return json_page(HTTPStatus.OK, await act(body, asked.caller))
        except FilterError as error:
            return failure(HTTPStatus.BAD_REQUEST, "correct the filter", error.reason, column=error.column)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(HTTPStatus.BAD_REQUEST, "send a JSON object", str(error))
        except DeniedError as error:
            return failure(HTTPStatus.FORBIDDEN, error.remedy, f"{error.address}: {error.reason}")
        except PleachError as error:
            return failure(HTTPStatus.CONFLICT, "", str(error))

    async def _plan(self, body: dict[str, Any], caller: Caller) -> object:
        return await self._runs.draft(read_request(body), caller)

    async def _apply(self, body: dict[str, Any], caller: Caller) -> object:
        return self._runs.carry_out(_text(body, "draft"), caller)

    async def _broker(self, body: dict[str, Any], caller: Caller) -> object:
        return told_to(caller, await self._source.detail(_text(body, "broker")))

    async def _interest(self, body: dict[str, Any], caller: Caller) -> object:
        found = await self._source.interested(parse_filter(_text(body, "filter")))
        return {"clients": {client: texts for client, texts in found.items() if caller.sees(client)}}

    async def _replay(self, body: dict[str, Any], _: Caller) -> object:
        return await self._source.replay(_text(body, "run"))


def seen_by(caller: Caller, shown: dict[str, Any]) -> dict[str, Any]:
    """A snapshot for one caller: what it may not do is not offered, and clients of other tenants are not shown.

    To operators of a tenant neither operations nor runs are shown, since their texts name clients.
    """
    source = shown.get("source", {})
    can = [action for action in source.get("can", ()) if action not in VERBS or caller.may(VERBS[action])]
    if caller.is_of_network:
        return {**shown, "source": {**source, "can": can}}
    clients = {name: client for name, client in shown.get("clients", {}).items() if caller.sees(name)}
    own = [action for action in can if action in FOR_TENANTS]
    brokers = {name: {**broker, "under_way": {}} for name, broker in shown.get("brokers", {}).items()}
    hidden: dict[str, Any] = {"operations": {}, "runs": {}, "notices": {}, "brokers": brokers}
    return {**shown, **hidden, "clients": clients, "source": {**source, "can": own}}


def page_files() -> dict[str, bytes]:
    """The files that a browser may load, by name; read once."""
    page = files("pleach.web") / "page"
    return {f.name: f.read_bytes() for f in page.iterdir() if f.name.rpartition(".")[2] in KINDS}


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise InvalidInputError(f"{key}: must be a text")
    return value
