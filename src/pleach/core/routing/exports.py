"""What one neighbour has been told, and which of it it has answered."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.stages import Stage

UNANSWERED_SPAN_MAX = 1_000_000  # between the first and the last install without an answer, where they are leased
NUMBER_MAX = 2**62  # a link does not come that far


class Export:
    """What one neighbour has been told."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.told: dict[Entry, None] = {}
        self.installs = 0  # sent so far; the number of the last one
        self.unanswered: set[int] = set()
        self.settles: set[int] = set()  # of these: whose answer stands for all before it
        self.answered_before = 1  # all before this one are answered
        self.is_suspended = False
        self.doubted: tuple[str, ...] | None = None  # the way behind it, while what was told may not be in effect there

    def answer(self, number: int) -> tuple[list[int], range]:
        """Take an answer in.

        Returns what is answered by it, and the installs up to which everything is answered now, and was not before.
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
        """The number of a question whose answer stands for all that was told before."""
        number = self.number()
        self.settles.add(number)
        return number

    def is_open(self, number: int, *, with_earlier: bool) -> bool:
        """Whether this answer is still to come, or that to some install up to this one."""
        return self.answered_before <= number <= self.installs if with_earlier else number in self.unanswered

    def mend(self) -> None:
        """Numbers that cannot be are forgotten: the answers to them would never come."""
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
