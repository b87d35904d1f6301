"""Stand-ins over HTTP: what brokers ask each other about a silent neighbour, and what an operator asks for.

POST /overlay/opinion  {"broker": "x"}   what this broker knows of x: whether it is a neighbour, and can be heard
POST /overlay/heal     {"broker": "x"}   at a neighbour of x: x is dead for good; start a stand-in for it, now

200 done · 400 malformed request · 409 refused, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from pleach.access.principals import Verb
from pleach.core.messages import Node
from pleach.operate.operation import OperationState
from pleach.server.healing.guardian import Guardian
from pleach.server.http.operations import Name
from pleach.server.http.page import HttpResponse, failure, json_page, posted
from pleach.server.http.routes import Route, posts

REMEDY = "a broker that is alive is taken out with `pleach overlay remove`; `pleach overlay show` says who answers"


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name


class HealingPages:
    def __init__(self, name: Node, guardian: Guardian) -> None:
        self._name = name
        self._guardian = guardian

    @property
    def routes(self) -> Sequence[Route]:
        return (
            posts("/overlay/opinion", Verb.READ, posted(Subject, self._opinion)),
            posts("/overlay/heal", Verb.REMOVE, posted(Subject, self._heal)),
        )

    async def _opinion(self, body: Subject) -> HttpResponse:
        return json_page(HTTPStatus.OK, self._guardian.opinion(body.broker))

    async def _heal(self, body: Subject) -> HttpResponse:
        reason = await self._guardian.heal(body.broker, is_ordered=True)
        if reason:
            return failure(HTTPStatus.CONFLICT, REMEDY, reason, state=OperationState.REFUSED)
        return json_page(HTTPStatus.OK, {"broker": body.broker, "stand_in_at": self._name})
