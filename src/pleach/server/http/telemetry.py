"""Traffic and distances of a broker, over HTTP: for programs that look for a better tree (operate/improve.py).

POST /traffic   {"after": N}        {"report": …, "next": M}: notes after number N; ask for M the next time, at first 0
POST /distances {"to": {"b": "10.0.0.2:7200", …}}     seconds there and back to where these brokers listen for brokers

Neither is a GET: asking for the traffic has it noted, and measuring has the broker dial.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

import msgspec

from pleach.access.principals import Verb
from pleach.core.messages import Node
from pleach.operate.observe import DISTANCES_MAX
from pleach.server.distances import distances
from pleach.server.http.operations import Name
from pleach.server.http.page import HttpResponse, json_page, posted
from pleach.server.http.routes import Route, posts
from pleach.server.traffic_notes import TrafficNotes


class TrafficBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class DistancesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[dict[Name, Name], msgspec.Meta(max_length=DISTANCES_MAX)]


class TelemetryPages:
    def __init__(self, name: Node, epoch: int, notes: TrafficNotes) -> None:
        self._name = name
        self._epoch = epoch
        self._notes = notes

    @property
    def routes(self) -> Sequence[Route]:
        return (
            posts("/traffic", Verb.READ, posted(TrafficBody, self._traffic)),
            posts("/distances", Verb.REWEAVE, posted(DistancesBody, self._distances)),
        )

    async def _traffic(self, body: TrafficBody) -> HttpResponse:
        report, number = self._notes.report(self._name, body.after)
        return json_page(HTTPStatus.OK, {"report": report, "next": number})

    async def _distances(self, body: DistancesBody) -> HttpResponse:
        return json_page(HTTPStatus.OK, await distances(self._name, self._epoch, body.to))
