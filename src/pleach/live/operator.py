"""What a node does by request and by the clock: an operator's operations, and the timers of its machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pleach.effects import Concluded
from pleach.errors import ProtocolError
from pleach.links.endpoint import Endpoint
from pleach.messages import OperatorRequest

log = logging.getLogger(__name__)


class Operator:
    """`touch`: to be called when something has happened at the endpoint."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float], touch: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._touch = touch
        self._waiting: dict[str, asyncio.Future[Concluded]] = {}  # by operation
        self._alarm: asyncio.TimerHandle | None = None  # for the timer that is due next

    def request(self, request: OperatorRequest) -> asyncio.Future[Concluded]:
        """Ask for an operation; raises ProtocolError where no protocol is there for it."""
        future = self._waiting[request.operation] = asyncio.get_running_loop().create_future()
        try:
            self._endpoint.request(request, now=self._clock())
        except ProtocolError:
            del self._waiting[request.operation]
            raise
        self._touch()
        return future

    def conclude(self, end: Concluded) -> None:
        log.info("operation %s: %s", end.operation, end.refusal or "done")
        future = self._waiting.pop(end.operation, None)
        if future is not None and not future.done():
            future.set_result(end)

    def set_alarm(self) -> None:
        """To be called whenever timers may have changed."""
        due = self._endpoint.upkeep.next_due
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, due - self._clock()), self._ring)

    def _ring(self) -> None:
        self._endpoint.fire(now=self._clock())
        self._touch()
