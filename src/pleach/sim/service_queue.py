"""Nodes that take one message after the other: what arrives at a busy one waits in line, and each takes its time.

Without a desk a node handles what arrives at once, however much it is, and a flood of messages costs nothing but the
messages. With one, floods pile up in front of it, as they do at real brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pleach.core.messages import Message
from pleach.sim.links import SimLink

# Do this so many seconds from now.
Later = Callable[[float, Callable[[], None]], None]


@dataclass
class ServiceQueue:
    """`seconds`: for a message, from when its turn comes until it is handled."""

    seconds: Callable[[Message], float]
    later: Later
    hand_over: Callable[[SimLink, Message], None]
    _line: deque[tuple[SimLink, Message]] = field(default_factory=deque)
    _is_busy: bool = False

    def take(self, link: SimLink, message: Message) -> None:
        self._line.append((link, message))
        if not self._is_busy:
            self._turn()

    def _turn(self) -> None:
        self._is_busy = True
        _, message = self._line[0]
        self.later(self.seconds(message), self._handle)

    def _handle(self) -> None:
        self._is_busy = False
        if not self._line:  # it was taken away meanwhile
            return
        link, message = self._line.popleft()
        if self._line:
            self._turn()
        if link.blocked:  # its node is down, or the link cut: as if it had not arrived yet
            link.kept.append(message)
        else:
            self.hand_over(link, message)

    def has_waiting(self, link: SimLink) -> bool:
        return any(over is link for over, _ in self._line)

    def take_away(self, link: SimLink) -> list[Message]:
        """What came over a link and still waits, in order."""
        found = [message for over, message in self._line if over is link]
        self._line = deque((over, message) for over, message in self._line if over is not link)
        return found
