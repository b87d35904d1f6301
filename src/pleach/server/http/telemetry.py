"""What a broker tells of traffic and distances, over HTTP: for whoever looks for a better tree (improving.py).

GET  /traffic/N                     {"report": …, "next": M}: notes after number N; ask for M the next time, at first 0
POST /distances {"to": {"b": "10.0.0.2:7200", …}}     seconds there and back to where these brokers listen for brokers
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec

from pleach.operate.observe import DISTANCES_MAX
from pleach.server.distances import distances
from pleach.server.http.operations import Name
from pleach.server.http.page import HttpResponse, decoded, failure, json_page
from pleach.server.node import BrokerNode

DIGITS_MAX = 18


class DistancesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[dict[Name, Name], msgspec.Meta(max_length=DISTANCES_MAX)]


class TelemetryPages:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    @property
    def families(self) -> Mapping[str, Callable[[str], HttpResponse]]:
        return {"/traffic": self._traffic}

    @property
    def actions(self) -> Mapping[str, Callable[[bytes], Awaitable[HttpResponse]]]:
        return {"/distances": self._distances}

    def _traffic(self, after: str) -> HttpResponse:
        if not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
            return failure(HTTPStatus.BAD_REQUEST, "GET /traffic/0 at first", f"{after!r} is no number")
        report, number = self._node.gate.traffic_notes.look(self._node.name, int(after))
        return json_page(HTTPStatus.OK, {"report": report, "next": number})

    async def _distances(self, data: bytes) -> HttpResponse:
        body = decoded(data, DistancesBody)
        if isinstance(body, HttpResponse):
            return body
        return json_page(HTTPStatus.OK, await distances(self._node.name, self._node.endpoint.epoch, body.to))
