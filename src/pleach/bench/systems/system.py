"""The interface of a measured system, and the protocol of its client processes.

forward.py ── starts ──▶ servers (serve)
           ── starts ──▶ worker: subscriber ── "ready"; "warm" after the warm-up; then a WorkerResult: lines of JSON
           ── starts ──▶ worker: publisher  ── "ready"; waits for a line; publishes; and so twice: warm-up, measurement
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

EVENT_BYTES = 200  # of payload, in every system
STAMP_BYTES = 8
TOPIC = "bench"


class Case(StrEnum):
    ONE = "1→1"
    VARIED = "1→1, events that differ"
    CHAIN = "chain of three"
    FAN_OUT = "fan-out 1→100"
    FILTERS = "1,000 content filters"


SUBSCRIBERS = {Case.ONE: 1, Case.VARIED: 1, Case.CHAIN: 1, Case.FAN_OUT: 100, Case.FILTERS: 1}
FILTERS = 1_000  # of Case.FILTERS; each event matches one


class WorkerTask(msgspec.Struct, frozen=True):
    """The task of a client process."""

    system: str
    case: Case
    address: str
    events: int  # measured
    warm_up: int  # events before the measured ones; at least 1
    rate: int = 0  # events per second; 0: as fast as it goes
    tls: str = ""

    @property
    def phases(self) -> tuple[int, int]:
        """The numbers of events per phase; a phase begins when all of the one before are sent."""
        return self.warm_up, self.events

    @property
    def subscribers(self) -> int:
        return SUBSCRIBERS[self.case]


class WorkerResult(msgspec.Struct, frozen=True):
    received: int
    seconds: float
    latencies: list[float] = []  # seconds, sorted; only where a rate was given

    @property
    def rate(self) -> float:
        return self.received / self.seconds if self.seconds else 0.0


class Addresses(NamedTuple):
    publisher: str
    subscriber: str
    tls: str = ""  # the directory of a client's certificate; empty: plain


class System(Protocol):
    """One system with its client library. `publish` and `subscribe` run in processes of their own."""

    @property
    def name(self) -> str: ...

    @property
    def cases(self) -> tuple[Case, ...]: ...

    @property
    def pace(self) -> float:
        """How many events a round takes, against Pleach's: rounds should take about as long."""
        ...

    def missing(self) -> str:
        """The missing package; empty if the system is installed."""
        ...

    def serve(self, case: Case, directory: Path) -> AbstractContextManager[Addresses]: ...

    def publish(self, task: WorkerTask, start: Starter) -> None: ...

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None: ...


class Starter(Protocol):
    """Report that the process is ready for the next phase, and wait until it begins."""

    def __call__(self) -> None: ...


class ReceiveMeter:
    """Counts received events; the clock runs from the publisher's first measured event to the last one received.

    It does not start at an arrival: events that a library has buffered by then would cost nothing.
    """

    def __init__(self, task: WorkerTask, ready: Starter, warm: Starter) -> None:
        self.ready = ready
        self.count = 0
        self._warm = warm
        self._warm_up = task.warm_up * task.subscribers
        self._total = self._warm_up + task.events * task.subscribers
        self._is_timed = task.rate > 0
        self._latencies: list[float] = []
        self._started = self._ended = 0.0

    def note(self, payload: bytes) -> bool:
        """Count one event; returns whether it was the last."""
        self.count = count = self.count + 1
        self._ended = time.monotonic()
        if count <= self._warm_up + 1:
            self._begin(count, payload)
        if self._is_timed and count > self._warm_up:
            self._latencies.append((time.monotonic_ns() - int.from_bytes(payload[:STAMP_BYTES])) / 1e9)
        return count >= self._total

    def _begin(self, count: int, payload: bytes) -> None:
        if count == self._warm_up:
            self._warm()
        self._started = int.from_bytes(payload[:STAMP_BYTES]) / 1e9

    def outcome(self) -> WorkerResult:
        measured = max(0, self.count - self._warm_up)
        return WorkerResult(measured, self._ended - self._started if measured else 0.0, sorted(self._latencies))


def payload() -> bytes:
    """An event's payload; it begins with the time at which it was made, which all processes of a machine share."""
    return time.monotonic_ns().to_bytes(STAMP_BYTES) + bytes(EVENT_BYTES - STAMP_BYTES)


def payloads(rate: int, count: int) -> Iterator[bytes]:
    """The payloads of a phase, as fast as they are taken; with a rate, each is stamped when it is due."""
    if not rate:
        yield from repeat(payload(), count)
        return
    schedule = SendSchedule(rate)
    for _ in range(count):
        yield payload()
        time.sleep(schedule.seconds_left())


async def awaited_payloads(rate: int, count: int) -> AsyncIterator[bytes]:
    """`payloads`, for publishers in an event loop."""
    if not rate:
        for body in repeat(payload(), count):
            yield body
        return
    schedule = SendSchedule(rate)
    for _ in range(count):
        yield payload()
        await asyncio.sleep(schedule.seconds_left())


class SendSchedule:
    """When the next event is due, for publishers that hold a rate."""

    def __init__(self, rate: int) -> None:
        self._every = 1 / rate
        self._next = time.monotonic()

    def seconds_left(self) -> float:
        self._next += self._every
        return max(0.0, self._next - time.monotonic())
