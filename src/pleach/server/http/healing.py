"""Stand-ins over HTTP: what brokers ask each other about a silent neighbour, and what an operator asks for.

POST /overlay/opinion  {"broker": "x"}   what this broker knows of x: whether it is a neighbour, and can be heard
POST /overlay/heal     {"broker": "x"}   at a neighbour of x: x is dead for good; start a stand-in for it, now

200 done · 400 not a request · 409 refused, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

import msgspec

from pleach.operate.operation import OperationState
from pleach.server.http.operations import Name
from pleach.server.http.page import HttpResponse, decoded, failure, json_page
from pleach.server.node import BrokerNode

REMEDY = "a broker that is alive is taken out with `pleach overlay remove`; `pleach overlay show` says who answers"


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name


class HealingPages:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    @property
    def actions(self) -> Mapping[str, Callable[[bytes], Awaitable[HttpResponse]]]:
        return {"/overlay/opinion": self._opinion, "/overlay/heal": self._heal}

    async def _opinion(self, data: bytes) -> HttpResponse:
        body = decoded(data, Subject)
        if isinstance(body, HttpResponse):
            return body
        return json_page(HTTPStatus.OK, self._node.guardian.opinion(body.broker))

    async def _heal(self, data: bytes) -> HttpResponse:
        body = decoded(data, Subject)
        if isinstance(body, HttpResponse):
            return body
        reason = await self._node.guardian.heal(body.broker, is_ordered=True)
        if reason:
            return failure(HTTPStatus.CONFLICT, REMEDY, reason, state=OperationState.REFUSED)
        return json_page(HTTPStatus.OK, {"broker": body.broker, "stand_in_at": self._node.name})
