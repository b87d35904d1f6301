"""The budget of a broker for broadcasts: how far and how often it broadcasts (S1 §5.8 leaves both open).

A broadcast costs its own messages and the requests that answer it. A broker pays for both from a budget:

    income    TRAFFIC_SHARE of the cost of events at the broker, divided by its back-off
    broadcast once the budget covers RADIUS_MIN hops; then as far as it covers, RADIUS_MAX hops at most
    expense   the hops of the broadcast, and each request that arrives
    back-off  doubles with each broadcast up to BACKOFF_MAX; an exchange resets it to 1 and cancels debts

The cost of events at a broker, p_v of each and half of each link, adds up to the cost of the tree. So all broadcasts
together cost at most TRAFFIC_SHARE of it while exchanges are found, and TRAFFIC_SHARE / BACKOFF_MAX at rest, for any
event rate and any tree. With fewer than RADIUS_MIN hops a tree stops improving at twice the cost (decision 30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

TRAFFIC_SHARE = 0.1
RADIUS_MIN, RADIUS_MAX = 3, 6  # hops
BACKOFF_MAX = 16
BROADCASTS_SAVED_MAX = 2  # the budget is capped at the price of this many of the farthest broadcasts

Prices: TypeAlias = Sequence[float]  # of a broadcast of 0, 1, 2, … hops; the last reaches every broker


@dataclass(frozen=True)
class BroadcastBudget:
    credit: float = 0.0
    backoff: int = 1

    def earned(self, cost_of_events: float, prices: Prices) -> BroadcastBudget:
        """`cost_of_events`: since the last call."""
        credit = self.credit + TRAFFIC_SHARE * cost_of_events / self.backoff
        return replace(self, credit=min(credit, BROADCASTS_SAVED_MAX * prices[-1]))

    def radius(self, prices: Prices) -> int | None:
        """The hops that a broadcast may go now; None: not yet."""
        farthest = min(len(prices) - 1, RADIUS_MAX)
        nearest = min(RADIUS_MIN, farthest)
        return max((hops for hops in range(nearest, farthest + 1) if prices[hops] <= self.credit), default=None)

    def broadcast(self, price: float) -> BroadcastBudget:
        return BroadcastBudget(self.credit - price, min(2 * self.backoff, BACKOFF_MAX))

    def requested(self, price: float) -> BroadcastBudget:
        """A request has arrived in answer to a broadcast; its price may leave a debt."""
        return replace(self, credit=self.credit - price)

    def exchanged(self) -> BroadcastBudget:
        """The broker was on the cycle of an exchange."""
        return BroadcastBudget(max(self.credit, 0.0))
