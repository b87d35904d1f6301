"""Components that a running broker hosts, over HTTP: an operator starts and ends them, and sees which have failed.

GET  /components                                                        the components, and what is wrong with them
POST /components      {"name": "k", "kind": "running-sum", "subscribe": ["EXISTS amount"]}      start one here
POST /components/end  {"name": "k"}                                     end it, and drop its state

They move as clients do: POST /overlay/move. Only the settings name the code of a kind (assemble.py): whoever
reaches the admin port can start a component, but cannot bring the code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

import msgspec

from pleach.access.principals import Verb
from pleach.core.broker import Broker
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import RequestHost, RequestUnhost
from pleach.errors import FilterError
from pleach.operate.operation import fresh_name
from pleach.server.http.operations import Body, Name, OperationPages
from pleach.server.http.page import HttpRequest, HttpResponse, failure, json_page, posted
from pleach.server.http.routes import Route, for_tenants, posts, reads

FILTERS_MAX = 256  # of one component
Texts = Annotated[list[str], msgspec.Meta(max_length=FILTERS_MAX)]


class HostBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    kind: Name
    subscribe: Texts = msgspec.field(default_factory=list)
    advertise: Texts = msgspec.field(default_factory=list)


class EndBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name


class ComponentPages:
    def __init__(self, broker: Broker, operations: OperationPages) -> None:
        self._broker = broker
        self._operations = operations

    @property
    def routes(self) -> Sequence[Route]:
        return (
            for_tenants(reads("/components", self._list)),
            for_tenants(posts("/components", Verb.MOVE, posted(HostBody, self._host, lambda body: body.name))),
            for_tenants(posts("/components/end", Verb.MOVE, posted(EndBody, self._end, lambda body: body.name))),
        )

    async def _list(self, asked: HttpRequest) -> HttpResponse:
        found = components_of(self._broker)
        return json_page(HTTPStatus.OK, {name: told for name, told in found.items() if asked.caller.sees(name)})

    async def _host(self, body: HostBody) -> HttpResponse:
        try:
            wanted, advertised = _filters(body.subscribe), _filters(body.advertise)
        except FilterError as error:
            return failure(HTTPStatus.BAD_REQUEST, "filters as in `pleach sub --help`", str(error))
        operation = body.operation or fresh_name()
        request = RequestHost(operation, body.name, body.kind, wanted, advertised, time.time_ns())
        return await self._operations.carry_out(request, body.timeout)

    async def _end(self, body: EndBody) -> HttpResponse:
        return await self._operations.carry_out(RequestUnhost(body.operation or fresh_name(), body.name), body.timeout)


def _filters(texts: list[str]) -> list[Filter]:
    return [parse_filter(text) for text in texts]


def components_of(broker: Broker) -> dict[str, object]:
    """The components of a broker, for people and for programs that remove it."""
    return {
        name: {"kind": resident.kind, "failed": resident.has_failed, "complaint": resident.complaint}
        for name, resident in sorted(broker.hosting.here.items())
    }
