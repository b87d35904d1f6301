"""Components at a running broker, over HTTP: an operator has one begin or end, and sees how they are.

GET  /components                                                        who lives here, and what is wrong with whom
POST /components      {"name": "k", "kind": "running-sum", "subscribe": ["EXISTS amount"]}      have one begin here
POST /components/end  {"name": "k"}                                     have it end, with all that it has

They move as clients do: POST /overlay/move. What a kind is, only the settings say (kinds.py): whoever reaches the
operators' port can have a component begin, but cannot bring the code.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec

from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import RequestHost, RequestUnhost
from pleach.errors import FilterError
from pleach.operate.operation import fresh_name
from pleach.server.http.operations import Body, Name, OperationPages
from pleach.server.http.page import HttpResponse, decoded, failure, json_page
from pleach.server.node import BrokerNode

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
    def __init__(self, node: BrokerNode, steering: OperationPages) -> None:
        self._node = node
        self._steering = steering

    @property
    def pages(self) -> Mapping[str, Callable[[], HttpResponse]]:
        return {"/components": lambda: json_page(HTTPStatus.OK, components_of(self._node))}

    @property
    def actions(self) -> Mapping[str, Callable[[bytes], Awaitable[HttpResponse]]]:
        return {"/components": self._host, "/components/end": self._end}

    async def _host(self, data: bytes) -> HttpResponse:
        body = decoded(data, HostBody)
        if isinstance(body, HttpResponse):
            return body
        try:
            wanted, advertised = _filters(body.subscribe), _filters(body.advertise)
        except FilterError as error:
            return failure(HTTPStatus.BAD_REQUEST, "filters as in `pleach sub --help`", str(error))
        operation = body.operation or fresh_name()
        request = RequestHost(operation, body.name, body.kind, wanted, advertised, time.time_ns())
        return await self._steering.carry_out(request, body.timeout)

    async def _end(self, data: bytes) -> HttpResponse:
        body = decoded(data, EndBody)
        if isinstance(body, HttpResponse):
            return body
        return await self._steering.carry_out(RequestUnhost(body.operation or fresh_name(), body.name), body.timeout)


def _filters(texts: list[str]) -> list[Filter]:
    return [parse_filter(text) for text in texts]


def components_of(node: BrokerNode) -> dict[str, object]:
    """The components of a broker, for people and for whoever removes it."""
    return {
        name: {"kind": resident.kind, "failed": resident.has_failed, "complaint": resident.complaint}
        for name, resident in sorted(node.broker.hosting.here.items())
    }
