"""What an operator sees of leases at work: what is renewed, what runs out, and what a renewal had to bring back.

In a network without faults nothing runs out but what peers have stopped to want without saying so, and nothing has to
be brought back. A broker whose state was damaged brings back what it had lost within ρ, and lets go of what it should
not have within 2π: both counters rise, and come to rest when it is right again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.messages import Advertise, Install, Layer, Message, Node, Subscribe
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.renewal_relay import UNANSWERED
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.server.metrics import Counters


class LeaseMetrics:
    """Counts for a broker that has leases, or rebuilds its tables."""

    def __init__(self, broker: Broker, leases: Leases | PacedRebuild, counters: Counters) -> None:
        self._broker = broker
        self._leases = leases
        self._counters = counters
        self._lapsed_before = leases.lapsed

    def heard(self, sender: Node, message: Message) -> None:
        """To be called before the broker has handled the message."""
        renewed = renewal(sender, message)
        if renewed is not None:
            self._counters.renewals_received += 1
            self._counters.lease_restored += not self._broker.router.has(renewed[0], sender, renewed[1])

    def did(self, effects: Sequence[Effect]) -> None:
        """To be called with what a timer, the return of a peer, or a round led to."""
        counters = self._counters
        counters.renewals_sent += sum(isinstance(effect, Send) and _is_again(effect.message) for effect in effects)
        counters.lease_expired = self._leases.lapsed - self._lapsed_before


def _is_again(message: Message) -> bool:
    return isinstance(message, Install) and message.number == UNANSWERED


def renewal(sender: Node, message: Message) -> tuple[Layer, Entry] | None:
    """The entry that a message renews, if it does."""
    match message:
        case Install(layer, number, told_owner, wanted) if number == UNANSWERED:
            return layer, Entry(told_owner, wanted)
        case Subscribe(name, wanted, renews=True):
            return Layer.SUBSCRIPTIONS, Entry(owner(sender, name), wanted)
        case Advertise(name, wanted, renews=True):
            return Layer.ADVERTISEMENTS, Entry(owner(sender, name), wanted)
    return None
