"""Phases of the ends of both links in protocols without colours (S1 §4.4.1, S2), and the messages that pass there.

As long as r and a are both in use, a message could go round the cycle for ever. Rule: an event crosses a once. So one
that is sent both ways is delivered twice, as S1 describes, and not more often. Table entries go round as well, until r
is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import Forward, Node
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale


class NewEnd(StrEnum):
    """An end of a."""

    CLOSED = "closed"  # routing does not use it
    TIMED = "waits to be linked"  # u waits before it does (strawman)
    LINKED = "linked"  # routing uses it
    OPEN = "open"  # and r is gone on this side: what is new since a was linked has been told over it


class OldEnd(StrEnum):
    """An end of r."""

    IN_USE = "in use"
    SUSPENDED = "suspended"  # this end tells nothing more over it (informed)
    TIMED = "waits to be removed"  # this end removes it after a delay
    LEFT_BY_FAR = "left by the far end"  # which has removed it: this end tells nothing more over it
    TIMED_LEFT_BY_FAR = "left by the far end, waits to be removed"
    REMOVED = "removed"  # this end has removed it
    GONE = "gone"  # both have


class PassingPhase(StrEnum):
    """A broker that is no end of either link; in `path`, x too."""

    LOCKED = "locked"
    BEGUN = "begun"  # a message of the exchange has passed
    AWAITING = "awaiting"  # path: the next broker has not acknowledged RECMSG
    RECONFIGURED = "reconfigured"  # path: it has


WAITING = (OldEnd.TIMED, OldEnd.TIMED_LEFT_BY_FAR)
LEFT_BY_FAR = (OldEnd.LEFT_BY_FAR, OldEnd.TIMED_LEFT_BY_FAR)
LINKED = (NewEnd.LINKED, NewEnd.OPEN)


class Ends(msgspec.Struct):
    """The state of one broker. Of the three phases those count that its roles have."""

    new: NewEnd = NewEnd.CLOSED
    old: OldEnd = OldEnd.IN_USE
    between: PassingPhase = PassingPhase.LOCKED
    link_after: float = 0.0  # seconds, where u is TIMED
    done: list[Node] = []  # ends of r at which r is gone, as far as this broker has heard
    crossed: dict[str, None] = {}  # at an end of a: events that went over it


class CrossingSeam:
    """The treatment of messages that arrive at, and leave, a broker of the cycle."""

    keeps_causal_order = False

    def __init__(self, cycle: Cycle, name: Node, state: Ends) -> None:
        self.cycle, self.name, self.state = cycle, name, state
        self._over_new, self._over_old = cycle.across_new(name), cycle.across_old(name)

    @property
    def peers(self) -> frozenset[Node]:
        return frozenset(node for node in (self._over_new, self._over_old) if node is not None)

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if sender == self._over_new:
            return self._over_the_new_link(sender, message)
        is_removed = self.state.old in (OldEnd.REMOVED, OldEnd.GONE)
        if sender == self._over_old and is_removed and not isinstance(message, Forward):
            return Drop("the old link is removed: routing here does not use it")
        return stale(sender, message)

    def _over_the_new_link(self, sender: Node, message: Passing) -> Verdict:
        if not isinstance(message, Forward):
            return stale(sender, message) if self.state.new in LINKED else Hold()
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
        """Whether the event crosses a for the first time; then it is recorded."""
        key = str(message.event.id)
        if key in self.state.crossed:
            return False
        self.state.crossed[key] = None
        return True
