"""What one neighbour has been told, and which of it it has answered."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.routing.entries import Change, Entry
from pleach.routing.stages import Stage


class Export:
    """What one neighbour has been told."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.told: dict[Entry, None] = {}
        self.installs = 0  # sent so far; the number of the last one
        self.unanswered: set[int] = set()
        self.answered_before = 1  # all before this one are answered
        self.is_suspended = False

    def answer(self, number: int) -> range:
        """Take an answer in; returns the installs up to which everything is answered now, and was not before."""
        self.unanswered.discard(number)
        start = self.answered_before
        while self.answered_before <= self.installs and self.answered_before not in self.unanswered:
            self.answered_before += 1
        return range(start, self.answered_before)

    def number(self) -> int:
        self.installs += 1
        self.unanswered.add(self.installs)
        return self.installs

    def apply(self, change: Change) -> Change:
        for stage in self._stages:
            change = stage.apply(change)
        for entry in change.removed:
            del self.told[entry]
        for entry in change.added:
            self.told[entry] = None
        return change
