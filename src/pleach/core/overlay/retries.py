"""Requests that meet a locked broker are tried again: a bounded number of times, after waits that grow.

Nobody waits while it holds a lock, so there is no deadlock. Opposed requests must not meet again and again either: how
long each waits depends on its name and on how often it was put off, which is no accident, but different for each.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.effects import Concluded, Effect, SetTimer
from pleach.core.messages import RequestExchange, RequestMove, RequestRemove, RequestSwap
from pleach.core.timing import jitter

RETRIES_MAX = 8
RETRY_SECONDS = 0.05  # doubles with each attempt, times something between 0.5 and 1.5
RETRIES_SECONDS_MAX = 1.5 * RETRY_SECONDS * 2 ** (RETRIES_MAX + 1)  # all of them together

Request: TypeAlias = RequestSwap | RequestRemove | RequestExchange | RequestMove


class PostponedRequest(msgspec.Struct, frozen=True):
    """`attempts`: how often the request was put off."""

    request: RequestSwap | RequestRemove | RequestExchange | RequestMove
    attempts: int


class Retries(msgspec.Struct):
    """The requests of one machine that wait. Its timers are named `prefix` and the operation."""

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
