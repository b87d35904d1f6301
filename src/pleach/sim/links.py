"""A simulated link: one direction between two nodes, reliable and FIFO, with latency.

Messages on a link never overtake each other. A link that is cut, or whose receiver is down, keeps what arrives and
hands it over once it is whole again, as a resending session does. Loss is the exception: a link that loses is what
the network promises not to be, and there to show that the oracle sees it.
"""

from __future__ import annotations

from random import Random

from pleach.messages import Message, Node


class Link:
    __slots__ = ("_draw", "_low", "_span", "blocked", "free_at", "kept", "loss", "receiver", "sender")

    def __init__(self, sender: Node, receiver: Node, latency: tuple[float, float], seed: str) -> None:
        self.sender = sender
        self.receiver = receiver
        self.loss = 0.0
        self.blocked = 0  # reasons for which nothing passes: the link is cut, the receiver is down
        self.kept: list[Message] = []  # what arrived meanwhile
        self.free_at = 0.0  # no message arrives before the one sent before it
        self._draw = Random(f"{seed}/{sender}>{receiver}").random
        self.set_latency(latency)

    def set_latency(self, latency: tuple[float, float]) -> None:
        """Seconds, uniform between the two."""
        self._low, high = latency
        self._span = high - self._low

    def arrival(self, now: float) -> float:
        """When a message sent now arrives."""
        at = now + self._low + self._span * self._draw()
        if at < self.free_at:  # noqa: PLR1730 - max() costs a call on the hottest line there is
            at = self.free_at
        self.free_at = at
        return at

    def loses(self) -> bool:
        return self.loss > 0.0 and self._draw() < self.loss
