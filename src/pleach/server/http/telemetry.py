"""Traffic and distances of a broker, over HTTP: for programs that look for a better tree (operate/improve.py).

GET  /traffic/N                     {"report": …, "next": M}: notes after number N; ask for M the next time, at first 0
POST /distances {"to": {"b": "10.0.0.2:7200", …}}     seconds there and back to where these brokers listen for brokers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec

from pleach.core.messages import Node
from pleach.operate.observe import DISTANCES_MAX
from pleach.server.distances import distances
from pleach.server.http.operations import Name
from pleach.server.http.page import Action, HttpResponse, failure, json_page, posted
from pleach.server.traffic_notes import TrafficNotes

DIGITS_MAX = 18


class DistancesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[dict[Name, Name], msgspec.Meta(max_length=DISTANCES_MAX)]


class TelemetryPages:
    def __init__(self, name: Node, epoch: int, notes: TrafficNotes) -> None:
        self._name = name
        self._epoch = epoch
        self._notes = notes

    @property
    def families(self) -> Mapping[str, Callable[[str], HttpResponse]]:
        return {"/traffic": self._traffic}

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"/distances": posted(DistancesBody, self._distances)}

    def _traffic(self, after: str) -> HttpResponse:
        if not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
            return failure(HTTPStatus.BAD_REQUEST, "GET /traffic/0 at first", f"{after!r} is no number")
        report, number = self._notes.report(self._name, int(after))
        return json_page(HTTPStatus.OK, {"report": report, "next": number})

    async def _distances(self, body: DistancesBody) -> HttpResponse:
        return json_page(HTTPStatus.OK, await distances(self._name, self._epoch, body.to))
