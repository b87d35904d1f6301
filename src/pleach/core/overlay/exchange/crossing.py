"""Events and routing messages at both links of a cycle, while it is closed (S1 §4.4.1, S2).

As long as r and a are both in use, what is sent round the cycle would go round for ever. Rule: an event crosses a once.
So one that goes both ways is delivered twice, as S1 describes, and not more often. Entries go round as well; they come
to rest when r is removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import Forward, Node
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale


class Ends(msgspec.Struct):
    """How far an exchange is at the ends of both links, as one broker sees it."""

    link_after: float | None = None  # seconds, where u waits before it does
    is_linked: bool = False  # at an end of a: routing goes over it
    is_removed: bool = False  # at an end of r: this end has stopped using it …
    is_left: bool = False  # … and the other one has
    remove_after: float = 0.0  # seconds, where an end of r waits before it does
    done: list[Node] = []  # ends of r that are done, as far as this broker has heard
    is_opened: bool = False  # at an end of a: it has told what is new since it was linked
    is_over: bool = False
    crossed: dict[str, None] = {}  # at an end of a: events that went over it


class CrossingSeam:
    """How a broker of the cycle treats what arrives and leaves."""

    keeps_causal_order = False

    def __init__(self, cycle: Cycle, name: Node, ends: Ends) -> None:
        self._ends = ends
        self._over_new, self._over_old = cycle.across_new(name), cycle.across_old(name)

    @property
    def peers(self) -> frozenset[Node]:
        return frozenset(node for node in (self._over_new, self._over_old) if node is not None)

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if sender == self._over_new:
            return self._over_the_new_link(sender, message)
        if sender == self._over_old and self._ends.is_removed and not isinstance(message, Forward):
            return Drop("the old link is removed: nobody here wants, or waits for, anything over it")
        return stale(sender, message)

    def _over_the_new_link(self, sender: Node, message: Passing) -> Verdict:
        if not isinstance(message, Forward):
            return stale(sender, message) if self._ends.is_linked else Hold()
        if not self._crosses(message):
            return Drop("it has crossed the new link before")
        return Pass(sender, message)

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        if self._over_new is None:
            return sends
        return [
            send
            for send in sends
            if send.to != self._over_new or not isinstance(send.message, Forward) or self._crosses(send.message)
        ]

    def _crosses(self, message: Forward) -> bool:
        """Whether the event crosses a for the first time; then it is noted."""
        key = str(message.event.id)
        if key in self._ends.crossed:
            return False
        self._ends.crossed[key] = None
        return True
