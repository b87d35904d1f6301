"""Events and routing messages on the cycle while brokers turn from black to gray (S1 §4.4.2, Algorithms 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import EVENTS_TO_BROKERS, Forward, Install, Mark, Marked, Node, RelayRouting, Withdraw
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale
from pleach.core.routing.renewal_relay import UNANSWERED


class CyclePlace(msgspec.Struct):
    """One broker of the cycle, and how far the exchange is as it sees it."""

    cycle: Cycle
    name: Node
    has_advertisements: bool  # whether the network uses them
    is_gray: bool = False
    is_relaying: bool = False  # at an end of r
    is_ended: bool = False  # at an end of a: nothing more is relayed
    own_passed: bool = False  # the separator of its own side has come back from r: nothing black of that side follows
    other_passed: bool = False  # the separator of the other side has passed: nothing black of that side follows

    @property
    def is_clear(self) -> bool:
        """Nothing black comes by here any more."""
        return self.own_passed and self.other_passed

    def queues_events(self, ordering: str) -> bool:
        """At an end of a: whether what comes over a waits (rules 6 and 7).

        With advertisements it waits at least until the subscriptions that those of the other side call for are here.
        """
        match ordering:
            case "none":
                return self.has_advertisements and not self.own_passed
            case "fifo":
                return not self.other_passed or (self.has_advertisements and not self.own_passed)
        return not self.is_clear

    def releasable(self, ordering: str) -> list[Node]:
        """The link a, at one of its ends, once what waits there may go on. What must wait still is held again."""
        far = self.cycle.across_new(self.name)
        return [far] if far is not None and (self.is_ended or not self.queues_events(ordering)) else []


class ColourSeam:
    """How a broker of the cycle treats what arrives and leaves."""

    keeps_causal_order = True  # what waits at a waits in line

    def __init__(self, place: CyclePlace, ordering: str) -> None:
        self._place = place
        self._ordering = ordering
        cycle, name = place.cycle, place.name
        self._over_new, self._over_old = cycle.across_new(name), cycle.across_old(name)
        around = (cycle.towards_new(name), cycle.towards_old(name), self._over_new, self._over_old)
        self._around = frozenset(node for node in around if node is not None)

    @property
    def peers(self) -> frozenset[Node]:
        return self._around

    # Receiving (Algorithm 7) ---------------------------------------------------------------------------------

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if sender == self._over_new:
            return self._over_the_new_link(sender, message)
        if sender == self._over_old and self._place.is_relaying and not _is_event(message):
            return self._relayed(message)
        return stale(sender, message)

    def _over_the_new_link(self, sender: Node, message: Passing) -> Verdict:
        """What is told waits for what is relayed. It must not overtake events either, where advertisements are used:

        an advertisement that is taken back takes the subscriptions away by which events before it find their way.
        """
        place = self._place
        is_event, queues = _is_event(message), place.queues_events(self._ordering)
        waits = queues if is_event else not place.is_ended or (place.has_advertisements and queues)
        return Hold() if waits else stale(sender, message)

    def _relayed(self, message: Passing) -> Verdict:
        if not isinstance(message, Install | Withdraw):
            return Drop("both ends ask again over the new link")
        if isinstance(message, Install):
            message = Install(message.layer, UNANSWERED, message.owner, message.filter)
        if self._over_new is not None:  # r and a meet here
            return Pass(self._over_new, message)
        following = self._place.cycle.towards_new(self._place.name)
        assert following is not None
        return Drop("relayed", [Send(following, RelayRouting(self._place.cycle.operation, message))])

    # Sending (Algorithm 8) -----------------------------------------------------------------------------------

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        if not _is_event(cause):
            return sends
        is_gray = self._is_gray(source, cause)
        return [coloured for send in sends if (coloured := self._coloured(send, is_gray=is_gray)) is not None]

    def _is_gray(self, source: Node, cause: Passing) -> bool:
        """What came over a is gray; what comes onto the cycle here has the colour of this broker."""
        if source == self._over_new:
            return True
        if source in self._around:
            return isinstance(cause, Marked) and cause.operation == self._place.cycle.operation
        return self._place.is_gray

    def _coloured(self, send: Send, *, is_gray: bool) -> Send | None:
        if not isinstance(send.message, Forward) or send.to not in self._around:
            return send
        if send.to == self._over_new:
            return send if is_gray else None
        if send.to == self._over_old:
            return None if is_gray else send
        if not is_gray:
            return send
        return Send(send.to, Marked(self._place.cycle.operation, Mark.GRAY, self._place.name, send.message))


def _is_event(message: Passing) -> bool:
    return message.__class__ in EVENTS_TO_BROKERS
