"""Planned moves of a broker to another machine, over HTTP.

POST /standby/move {"to": "HOST:PORT"}     or the name of a machine: copy the data there, and let it take over

200 begun; `standby.moving` in /status tells how far it is · 400 malformed request · 409 refused, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from pleach.access.principals import Verb
from pleach.core.messages import Node
from pleach.errors import PromotionError
from pleach.operate.operation import OperationState
from pleach.server.http.operations import Name
from pleach.server.http.page import HttpResponse, failure, json_page, posted
from pleach.server.http.routes import Route, posts
from pleach.server.standby.replication import Replication

REMEDY = "give it a table [standby], and the address of a host of copies; /status says what is known"


class MoveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Name


class BrokerMovePages:
    def __init__(self, name: Node, replication: Replication | None) -> None:
        self._name = name
        self._replication = replication

    @property
    def routes(self) -> Sequence[Route]:
        return (posts("/standby/move", Verb.REWEAVE, posted(MoveBody, self._move)),)

    async def _move(self, body: MoveBody) -> HttpResponse:
        if self._replication is None:
            return _refused(f"{self._name} has no standbys, and moves nowhere")
        try:
            self._replication.move_to(body.to)
        except PromotionError as error:
            return _refused(str(error))
        return json_page(HTTPStatus.OK, {"broker": self._name, "to": body.to})


def _refused(reason: str) -> HttpResponse:
    return failure(HTTPStatus.CONFLICT, REMEDY, reason, state=OperationState.REFUSED)
