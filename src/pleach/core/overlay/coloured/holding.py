"""Events that wait for a recolouring, so that they do not overtake events in the tree before (S1 §4.5.4).

    fifo     an event of the current colour waits before a link that the old tree does not have
    causal   where the tree has changed, events of clients wait at their own broker

After the next recolouring all events of the old tree have arrived. The held events are sent in the colour that they got
when they were published, which is emptied one period later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import Coloured, Forward, Node, Publish


class Order(StrEnum):
    NONE = "none"
    FIFO = "fifo"
    CAUSAL = "causal"


class HoldingState(msgspec.Struct, array_like=True):
    """`is_changed`: the current tree differs from the old one."""

    is_changed: bool = False
    published: list[tuple[Node, Publish]] = msgspec.field(default_factory=list)
    sends: list[tuple[Node, Coloured]] = msgspec.field(default_factory=list)


class Released(msgspec.Struct, frozen=True):
    published: Sequence[tuple[Node, Publish]]
    sends: Sequence[Send]


class Holding:
    def __init__(self, order: Order) -> None:
        self._order = order
        self.state = HoldingState()

    @property
    def count(self) -> int:
        return len(self.state.published) + len(self.state.sends)

    def holds(self, client: Node, message: Publish) -> bool:
        """Whether this publication waits; if so, it is kept."""
        if self._order is not Order.CAUSAL or not self.state.is_changed:
            return False
        self.state.published.append((client, message))
        return True

    def passed(self, sends: Iterable[Send], known_links: Sequence[Node]) -> list[Send]:
        """The sends of the current colour that need not wait. `known_links`: of the old tree."""
        if self._order is not Order.FIFO:
            return list(sends)
        passed = []
        for send in sends:
            tinted = send.message
            if isinstance(tinted, Coloured) and isinstance(tinted.message, Forward) and send.to not in known_links:
                self.state.sends.append((send.to, tinted))
            else:
                passed.append(send)
        return passed

    def turn(self, *, is_changed: bool) -> Released:
        """A recolouring: release what was held."""
        former, self.state = self.state, HoldingState(is_changed)
        return Released(former.published, [Send(to, tinted) for to, tinted in former.sends])
