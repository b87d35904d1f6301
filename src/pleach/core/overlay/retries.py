"""Back-off of requests that meet a locked broker: they are tried again a bounded number of times, after growing waits.

No broker waits while it holds a lock, so there is no deadlock. Nor is there livelock: the wait depends on the name of
the operation and on the attempt, so that opposed requests wait for different times, yet for the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pleach.core.effects import CancelTimer, Concluded, Effect, SetTimer
from pleach.core.messages import RequestExchange, RequestMove, RequestRemove, RequestSwap
from pleach.core.overlay.abandonment import ABANDONED, OpenOperation
from pleach.core.overlay.seam import Reaction
from pleach.core.timing import jitter

RETRIES_MAX = 8
RETRY_SECONDS = 0.05  # doubles with each attempt, times a factor between 0.5 and 1.5

Request: TypeAlias = RequestSwap | RequestRemove | RequestExchange | RequestMove


class PostponedRequest(msgspec.Struct, frozen=True):
    """`attempts`: how often the request was put off."""

    request: Request
    attempts: int


class Retries(msgspec.Struct):
    """The postponed requests of one machine. The name of a timer is `prefix` and the operation."""

    prefix: str
    waiting: dict[str, PostponedRequest] = {}

    def put_off(self, request: Request, attempts: int, reason: str) -> list[Effect]:
        """Try again later; after too many attempts the request is refused, for the last reason."""
        if isinstance(request, RequestSwap | RequestExchange) and not request.is_patient:
            return [Concluded(request.operation, reason)]
        if attempts == RETRIES_MAX:
            return [Concluded(request.operation, f"{reason}; asked {attempts + 1} times")]
        self.waiting[request.operation] = PostponedRequest(request, attempts + 1)
        return [self._timer(request.operation)]

    def take(self, timer: str) -> PostponedRequest | None:
        return self.waiting.pop(timer.removeprefix(self.prefix), None)

    def timers(self) -> list[Effect]:
        return [self._timer(operation) for operation in self.waiting]

    def _timer(self, operation: str) -> SetTimer:
        attempts = self.waiting[operation].attempts
        return SetTimer(self.prefix + operation, RETRY_SECONDS * 2**attempts * jitter(f"{operation}/{attempts}"))


class PutOff:
    """Requests of one protocol that are put off, as operators see them. `retries`: those of its present state."""

    def __init__(self, retries: Callable[[], Retries]) -> None:
        self._retries = retries

    @property
    def open_operations(self) -> list[OpenOperation]:
        waiting = self._retries().waiting
        return [OpenOperation(name, f"put off {each.attempts} times") for name, each in sorted(waiting.items())]

    def abandon(self, operation: str) -> Reaction:
        """Refuse the request."""
        retries = self._retries()
        del retries.waiting[operation]
        return Reaction([CancelTimer(retries.prefix + operation), Concluded(operation, ABANDONED)])
