"""A soak that is played again: the actions of a log at their times, whatever the network makes of them now."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pleach.soak.actions import Action
from pleach.soak.log import Began, Entry
from pleach.soak.monkey import Seen


class Replay:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._left = deque(entry for entry in entries if isinstance(entry, Began))

    def pause(self, now: float) -> float | None:
        """Seconds until the next action; None: there is none. What is late is done at once."""
        return max(0.0, self._left[0].at - now) if self._left else None

    def choose(self, _seen: Seen) -> Action:
        return self._left.popleft().action
