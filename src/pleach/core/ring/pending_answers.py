"""What a host waits for: an answer by its ticket, or the end of its patience."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pleach.core.effects import SetTimer

ANSWERS: Final = "ring:answers"
TICKETS_PER_SECOND: Final = 1_000_000  # more than a host asks for: a restarted one does not use a ticket again

What = TypeVar("What")


class PendingAnswers(Generic[What]):
    """One timer for all of them: it is set for the earliest end, and anew if it was too early."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, What]] = {}
        self._ticket = 0
        self._is_timed = False

    def issue(self, what: What, within: float, now: float) -> int:
        self._ticket = max(self._ticket + 1, int(now * TICKETS_PER_SECOND))
        self._waiting[self._ticket] = (now + within, what)
        return self._ticket

    def take(self, ticket: int) -> What | None:
        """What this answers; None if it is late, or answers nothing that was asked."""
        _, what = self._waiting.pop(ticket, (0.0, None))
        return what

    def take_overdue(self, now: float) -> list[What]:
        self._is_timed = False
        tickets = [ticket for ticket, (end, _) in self._waiting.items() if end <= now]
        return [self._waiting.pop(ticket)[1] for ticket in tickets]

    def take_all(self, is_wanted: Callable[[What], bool]) -> list[What]:
        """What will not be answered any more."""
        tickets = [ticket for ticket, (_, what) in self._waiting.items() if is_wanted(what)]
        return [self._waiting.pop(ticket)[1] for ticket in tickets]

    def timer(self, now: float) -> list[SetTimer]:
        if self._is_timed or not self._waiting:
            return []
        self._is_timed = True
        return [SetTimer(ANSWERS, max(0.0, min(end for end, _ in self._waiting.values()) - now))]
