"""Observations of running brokers: their tree, their notes of events, and the round-trip times between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.sightings import Report, Sighting
from pleach.core.overlay.plans.topology import Link, Topology
from pleach.errors import SurveyError, UnreachableError
from pleach.net.concurrency import at_most
from pleach.net.http_client import ask
from pleach.operate.survey import SETTLE_PAUSE_SECONDS, Survey, survey

DISTANCES_MAX = 64  # of one request
ASKED_AT_ONCE_MAX = 64
DISTANCES_SECONDS_MAX = 120.0
SETTLE_SECONDS_MAX = 3.0  # a reconfiguration usually takes less; else the next observation will do


class _Told(msgspec.Struct, frozen=True):
    report: Report
    next: int


@dataclass(frozen=True)
class Observation:
    """`at`: seconds since 1970, as the sightings' times."""

    at: float
    survey: Survey
    tree: Topology
    sightings: tuple[Sighting, ...]

    @property
    def zones(self) -> dict[Node, str]:
        return {name: status.zone for name, status in self.survey.found.items() if status.zone}


class Observer:
    """Asks the same brokers repeatedly, each for what is new."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = list(places)
        self._next: dict[Node, int] = {}

    async def observe(self) -> Observation:
        """Raises SurveyError where brokers do not answer, or a change of the tree does not end soon."""
        found, tree = await self._settled()
        self._places = list(dict.fromkeys((*found.admin.values(), *self._places)))
        told = await at_most(ASKED_AT_ONCE_MAX, lambda name: self._traffic(name, found.admin[name]), tree.brokers)
        return Observation(time.time(), found, tree, tuple(Sighting.all_of(told)))

    async def _settled(self) -> tuple[Survey, Topology]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + SETTLE_SECONDS_MAX
        while True:
            found = await survey(self._places, "/glance")
            try:
                return found, _quiet_tree(found)
            except SurveyError:
                if clock() > deadline or not found.found:
                    raise
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)

    async def _traffic(self, broker: Node, address: str) -> tuple[Report, float]:
        """Ages are relative to the middle of the request: clocks of two machines are never compared."""
        asked = time.time()
        answer = await _answer(address, "/traffic", {"after": self._next.get(broker, 0)})
        between = (asked + time.time()) / 2
        try:
            told = msgspec.convert(answer, _Told)
        except msgspec.ValidationError as error:
            raise SurveyError(
                f"{broker} does not report its traffic", f"a broker of another release? {error}"
            ) from None
        self._next[broker] = told.next
        return told.report, between


def _quiet_tree(found: Survey) -> Topology:
    busy = sorted(name for name, status in found.found.items() if status.operation)
    if busy:
        raise SurveyError("the tree is changing", f"{', '.join(busy)} take part in a reconfiguration")
    return found.topology()


async def measured(observed: Observation) -> dict[Link, float]:
    """Round-trip times, in seconds, between any two brokers that reach each other."""
    admin = observed.survey.admin
    peer = {name: observed.survey.found[name].addresses.peer for name in observed.tree.brokers}
    brokers = observed.tree.brokers  # sorted
    requests = [
        (a, admin[a], {b: peer[b] for b in brokers[first : first + DISTANCES_MAX]})
        for number, a in enumerate(brokers)
        for first in range(number + 1, len(brokers), DISTANCES_MAX)
    ]
    found = await at_most(ASKED_AT_ONCE_MAX, lambda request: _distances(*request), requests)
    return {each: seconds for some in found for each, seconds in some.items()}


async def _distances(a: Node, address: str, places: dict[Node, str]) -> dict[Link, float]:
    found = await _answer(address, "/distances", {"to": places}, seconds_max=DISTANCES_SECONDS_MAX)
    return {(a, b): seconds for b, seconds in found.items() if seconds is not None}


async def _answer(address: str, path: str, body: object = None, *, seconds_max: float = 5.0) -> Any:
    try:
        answer = await ask(address, path, body, seconds_max=seconds_max)
    except UnreachableError as error:
        raise SurveyError(f"{address} does not answer", error.reason) from None
    if not answer.is_ok:
        raise SurveyError(f"{address} does not answer {path}", str(answer.value.get("error", answer.code)))
    return answer.value
