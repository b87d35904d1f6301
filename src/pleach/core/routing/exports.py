"""Exports: the entries that a neighbour has been told, and the answers that are pending."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.stages import Stage

UNANSWERED_SPAN_MAX = 1_000_000  # between the first and the last unanswered install, with leases
NUMBER_MAX = 2**62  # beyond what a link can reach


class Export:
    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.told: dict[Entry, None] = {}
        self.installs = 0  # the number of the last install
        self.unanswered: set[int] = set()
        self.settles: set[int] = set()  # those whose answer stands for all before
        self.answered_before = 1  # all numbers below are answered
        self.is_suspended = False
        self.doubted: tuple[str, ...] | None = None  # the path behind it where entries may not be in effect

    def answer(self, number: int) -> tuple[list[int], range]:
        """Record an answer.

        Returns the numbers that it answers, and the numbers below which everything is answered since now.
        """
        numbers = [number]
        if number in self.settles:
            numbers = sorted(n for n in self.unanswered if n <= number)
        self.unanswered.difference_update(numbers)
        self.settles.difference_update(numbers)
        start = self.answered_before
        while self.answered_before <= self.installs and self.answered_before not in self.unanswered:
            self.answered_before += 1
        return numbers, range(start, self.answered_before)

    def settle(self) -> int:
        """The number of a Settle, whose answer stands for all before it."""
        number = self.number()
        self.settles.add(number)
        return number

    def is_open(self, number: int, *, with_earlier: bool) -> bool:
        """Whether this answer is pending, or (with_earlier) one up to it."""
        return self.answered_before <= number <= self.installs if with_earlier else number in self.unanswered

    def mend(self) -> None:
        """Drop numbers out of range: their answers would never arrive."""
        if not 0 <= self.installs <= NUMBER_MAX:
            self.installs = 0
        first = max(1, self.installs - UNANSWERED_SPAN_MAX)
        self.unanswered = {number for number in self.unanswered if first <= number <= self.installs}
        self.settles &= self.unanswered
        self.answered_before = min(self.unanswered, default=self.installs + 1)

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
