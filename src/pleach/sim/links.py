"""A simulated link: one direction between two nodes, reliable and FIFO, with latency.

Messages on a link never overtake each other. A link that is cut, or whose receiver is down, keeps messages that arrive
and hands them over once it is up again, as a resending session does. Loss is the exception: no real link loses
messages; lossy ones show that the oracle detects losses.

`Links` are all links of a network. Each end opens and closes its own direction; once both are closed and all messages
have arrived, the link is gone. If it is opened again it is the same link: nothing overtakes messages still in flight,
and its random stream goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from pleach.core.messages import Message, Node

AT_ONCE = (0.0, 0.0)  # the default latency

LinkListener = Callable[["SimLink"], None]


class SimLink:
    __slots__ = ("_draw", "_low", "_span", "blocked", "free_at", "kept", "loss", "opened", "receiver", "sender")

    def __init__(self, sender: Node, receiver: Node, latency: tuple[float, float], seed: str) -> None:
        self.sender = sender
        self.receiver = receiver
        self.loss = 0.0
        self.opened = 0  # how often: reasons to block it end with the link
        self.blocked = 0  # reasons for which nothing passes: the link is cut, the receiver is down
        self.kept: list[Message] = []  # messages that arrived meanwhile
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


class Links:
    def __init__(self, seed: str) -> None:
        self.out: dict[Node, dict[Node, SimLink]] = {}  # open ones, by sender and receiver
        self.on_new: LinkListener | None = None  # called with each direction of a new link
        self.cuts: Counter[tuple[Node, ...]] = Counter()
        self._seed = seed
        self._all: dict[tuple[Node, Node], SimLink] = {}  # open and former ones
        self._down: dict[Node, None] = {}

    def add(self, node: Node) -> None:
        self.out.setdefault(node, {})

    def open(self, sender: Node, receiver: Node, *, is_new: bool) -> None:
        """One direction. `is_new`: neither is open, and nothing is in flight from before.

        A link to an unknown node may be opened; sending over it is an error.
        """
        if receiver not in self.out:
            return
        if is_new:
            self.cuts.pop(_pair(sender, receiver), None)
            self._furnish(sender, receiver)
            self._furnish(receiver, sender)
        self.out[sender][receiver] = self._all[sender, receiver]

    def _furnish(self, sender: Node, receiver: Node) -> None:
        link = self._all.get((sender, receiver))
        if link is None:
            link = self._all[sender, receiver] = SimLink(sender, receiver, AT_ONCE, self._seed)
        link.opened += 1
        link.blocked = int(receiver in self._down)
        if self.on_new:
            self.on_new(link)

    def close(self, sender: Node, receiver: Node) -> None:
        self.out[sender].pop(receiver, None)

    def between(self, a: Node, b: Node) -> list[SimLink]:
        """Both directions, that from `a` first; empty if there was no such link."""
        return [self._all[a, b], self._all[b, a]] if (a, b) in self._all else []

    def leads(self, sender: Node, receiver: Node) -> bool:
        """In this direction."""
        return receiver in self.out.get(sender, ())

    def is_open(self, a: Node, b: Node) -> bool:
        """In one direction at least."""
        return self.leads(a, b) or self.leads(b, a)

    # Faults --------------------------------------------------------------------------------------------------

    def cut(self, a: Node, b: Node) -> list[SimLink]:
        """The links for the caller to block."""
        self.cuts[_pair(a, b)] += 1
        return self.between(a, b)

    def heal(self, a: Node, b: Node) -> list[SimLink]:
        """The links for the caller to unblock: none if they are up."""
        if not self.cuts[_pair(a, b)]:
            return []
        self.cuts[_pair(a, b)] -= 1
        return self.between(a, b)

    @property
    def is_stuck(self) -> bool:
        """Whether messages wait because of a cut or a crash."""
        return any(link.kept for link in self._all.values())

    def take_down(self, node: Node) -> None:
        """Messages to the node wait from now on, also on links that are opened later."""
        self._down[node] = None
        for link in self._into(node):
            link.blocked += 1

    def bring_up(self, node: Node) -> list[SimLink]:
        """The links into the node, for the caller to unblock."""
        del self._down[node]
        return self._into(node)

    def _into(self, node: Node) -> list[SimLink]:
        return [link for (_, receiver), link in self._all.items() if receiver == node]


def _pair(a: Node, b: Node) -> tuple[Node, ...]:
    return tuple(sorted((a, b)))
