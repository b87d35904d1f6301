"""Faults on purpose, over HTTP: for tests of how a network recovers. Off, unless a broker has `debug_faults`.

POST /debug/corrupt  {"what": "table", "share": 0.3, "seed": 1}       damage a share of this part of the state
POST /debug/garble   {"peer": "b", "share": 0.5, "seconds": 0.5}      for so long, garble what is sent to a neighbour
POST /debug/keep     {}                                               keep the state as it is now, for …
POST /debug/rewind   {}                                               … going on from it, as from an old backup

200 done · 400 malformed request · 403 faults are off here · 409 no fault can be injected now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from pleach.core.broker import Broker
from pleach.core.messages import Node
from pleach.faults.damage import PARTS
from pleach.server.http.page import Action, HttpResponse, failure, json_page, posted
from pleach.server.injected_faults import InjectedFaults
from pleach.server.settings import BrokerSettings

GARBLE_SECONDS_MAX = 60.0

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Body = TypeVar("Body", bound=msgspec.Struct)


class CorruptBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    what: str
    share: Share = 0.5
    seed: int = 0


class GarbleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    peer: Node
    share: Share = 0.5
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=GARBLE_SECONDS_MAX)] = 0.5
    seed: int = 0


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class FaultPages:
    def __init__(self, broker: Broker, faults: InjectedFaults | None, settings: Callable[[], BrokerSettings]) -> None:
        """`faults`: None where they are off."""
        self._broker = broker
        self._faults = faults
        self._settings = settings

    @property
    def actions(self) -> Mapping[str, Action]:
        return {
            "/debug/corrupt": self._guarded(CorruptBody, self._corrupt),
            "/debug/garble": self._guarded(GarbleBody, self._garble),
            "/debug/keep": self._guarded(NoBody, self._keep),
            "/debug/rewind": self._guarded(NoBody, self._rewind),
        }

    def _guarded(self, kind: type[Body], act: Callable[[InjectedFaults, Body], HttpResponse]) -> Action:
        name, broker = self._broker.name, self._broker

        async def answer(data: bytes) -> HttpResponse:
            faults = self._faults
            if faults is None:
                remedy = "start it with --debug-faults, if it is there to be broken"
                return failure(HTTPStatus.FORBIDDEN, remedy, f"{name} lets nobody damage it")
            if self._settings().stabilise is None:
                return _conflict("give its network [stabilise]", f"{name} does not find back by itself")
            if broker.operation:
                return _conflict("wait until it is over", f"{name} takes part in operation {broker.operation}")

            async def acted(body: Body) -> HttpResponse:
                return act(faults, body)

            return await posted(kind, acted)(data)

        return answer

    def _corrupt(self, faults: InjectedFaults, body: CorruptBody) -> HttpResponse:
        if body.what not in PARTS:
            return failure(HTTPStatus.BAD_REQUEST, f"one of {', '.join(PARTS)}", f"nothing is known of {body.what!r}")
        faults.corrupt(body.what, body.share, body.seed)
        return json_page(HTTPStatus.OK, {"corrupted": body.what, "share": body.share})

    def _garble(self, faults: InjectedFaults, body: GarbleBody) -> HttpResponse:
        neighbours = self._broker.router.neighbours
        if body.peer not in neighbours:
            known = ", ".join(sorted(neighbours)) or "it has none"
            return failure(HTTPStatus.BAD_REQUEST, f"a neighbour: {known}", f"{body.peer!r} is no neighbour")
        faults.garble(body.peer, body.share, body.seed, body.seconds)
        return json_page(HTTPStatus.OK, {"garbled": body.peer, "share": body.share, "seconds": body.seconds})

    def _keep(self, faults: InjectedFaults, _: NoBody) -> HttpResponse:
        return json_page(HTTPStatus.OK, {"kept": faults.keep()})

    def _rewind(self, faults: InjectedFaults, _: NoBody) -> HttpResponse:
        if not faults.rewind():
            return _conflict("POST /debug/keep first", f"{self._broker.name} has kept no state")
        return json_page(HTTPStatus.OK, {"rewound": True})


def _conflict(remedy: str, error: str) -> HttpResponse:
    return failure(HTTPStatus.CONFLICT, remedy, error)
