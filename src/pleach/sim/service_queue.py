"""Queues of nodes that take time for each message and handle them one after the other.

Without a queue a node handles any number of messages at once, so a flood costs no time. With one, messages wait while
the node is busy, as they do at real brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pleach.core.messages import Message
from pleach.sim.links import SimLink

# Calls a function that many seconds from now.
Later = Callable[[float, Callable[[], None]], None]


@dataclass
class ServiceQueue:
    """`seconds`: the service time of a message."""

    seconds: Callable[[Message], float]
    later: Later
    hand_over: Callable[[SimLink, Message], None]
    _waiting: deque[tuple[SimLink, Message]] = field(default_factory=deque)
    _is_busy: bool = False

    def take(self, link: SimLink, message: Message) -> None:
        self._waiting.append((link, message))
        if not self._is_busy:
            self._serve_next()

    def _serve_next(self) -> None:
        self._is_busy = True
        _, message = self._waiting[0]
        self.later(self.seconds(message), self._handle)

    def _handle(self) -> None:
        self._is_busy = False
        if not self._waiting:  # it was removed meanwhile
            return
        link, message = self._waiting.popleft()
        if self._waiting:
            self._serve_next()
        if link.blocked:  # the node is down or the link is cut: the message has not arrived
            link.kept.append(message)
        else:
            self.hand_over(link, message)

    def has_waiting(self, link: SimLink) -> bool:
        return any(over is link for over, _ in self._waiting)

    def take_away(self, link: SimLink) -> list[Message]:
        """Remove the messages of a link that still wait; returns them in order."""
        found = [message for over, message in self._waiting if over is link]
        self._waiting = deque((over, message) for over, message in self._waiting if over is not link)
        return found
