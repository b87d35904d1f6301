"""How far a broker looks, and how often: as far as it can afford (S1 §5.8 leaves radius and interval to be found).

A look is a broadcast. It costs what its messages cost, and the requests that it brings back. A broker pays for both
out of a purse:

    earns    SHARE of what events cost at it, by its patience less
    looks    once it can pay for RADIUS_MIN hops: then as far as it can pay for, RADIUS_MAX hops at most
    pays     for the hops, and for each request that arrives
    patience doubles with each look up to PATIENCE_MAX; 1 again, and all debts forgiven, with an exchange

What events cost at a broker, p_v of each and half of each link, adds up to the cost of the tree. So all looks together
cost SHARE of it at most while something is found, and SHARE / PATIENCE_MAX at rest: at any rate of events, in a tree of
any size and shape. Where events are many, looks are cheap beside them, and go far; where they are few, a broker
looks seldom, and near. Why never nearer than RADIUS_MIN: with two hops a tree comes to rest too early, at twice the
cost (decision 30).

What a look would cost is known without looking: with each broadcast, a broker tells its neighbours what it costs to
reach each distance through it (`beyond`, `told`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from math import fsum
from typing import TypeAlias

from pleach.core.messages import Node

SHARE = 0.1
RADIUS_MIN, RADIUS_MAX = 3, 6  # hops
PATIENCE_MAX = 16
LOOKS_SAVED_MAX = 2  # a purse holds no more than what so many of the farthest looks cost

Rings: TypeAlias = tuple[float, ...]  # what the brokers at distance 1, 2, … cost to reach; none behind the last
Prices: TypeAlias = Sequence[float]  # what a look of 0, 1, 2, … hops costs; none is farther than the last


@dataclass(frozen=True)
class Purse:
    credit: float = 0.0
    patience: int = 1

    def earned(self, cost_of_events: float, prices: Prices) -> Purse:
        """Events have cost this since."""
        credit = self.credit + SHARE * cost_of_events / self.patience
        return replace(self, credit=min(credit, LOOKS_SAVED_MAX * prices[-1]))

    def radius(self, prices: Prices) -> int | None:
        """How far it may look now; None: not yet."""
        farthest = min(len(prices) - 1, RADIUS_MAX)
        nearest = min(RADIUS_MIN, farthest)
        return max((hops for hops in range(nearest, farthest + 1) if prices[hops] <= self.credit), default=None)

    def looked(self, price: float) -> Purse:
        return Purse(self.credit - price, min(2 * self.patience, PATIENCE_MAX))

    def asked(self, price: float) -> Purse:
        """A request has come in answer to a look. It has to be paid for, even if that makes a debt."""
        return replace(self, credit=self.credit - price)

    def exchanged(self) -> Purse:
        """The broker is on the cycle of an exchange, which has paid for what led to it."""
        return Purse(max(self.credit, 0.0))


def prices_of(processing: float, beyond: Mapping[Node, Rings]) -> list[float]:
    """What looks cost this broker, by what each of its neighbours has told."""
    return list(accumulate(_together(list(beyond.values())), initial=processing))[: RADIUS_MAX + 1]


def told(processing: float, communication: float, there: Node, beyond: Mapping[Node, Rings]) -> Rings:
    """What to tell a neighbour: what it costs to reach this broker, and all that is beyond it."""
    others = [rings for neighbour, rings in beyond.items() if neighbour != there]
    return (processing + communication, *_together(others))[:RADIUS_MAX]


def _together(rings: Sequence[Rings]) -> Rings:
    return tuple(map(fsum, zip_longest(*rings, fillvalue=0.0)))
