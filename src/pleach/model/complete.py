"""Closed forms for complete trees with all subscribers at the leaves (S1 §3.5.1–3.5.3, equations 3.12–3.34).

Hierarchical routing, identity-based, with leases. Each leaf and filter class is an M/M/∞ queue of subscriptions.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import exp

from pleach.errors import InvalidInputError
from pleach.model.costs import Costs
from pleach.model.network import Broker, FilterClass, Network, Rates

TREE_BROKERS_MAX = 10**12  # beyond, powers of p0 underflow


class Publishers(StrEnum):
    ROOT = "root"  # all at the root: the best case of hierarchical routing
    LEAVES = "leaves"  # the worst


@dataclass(frozen=True)
class CompleteTree:
    """An m-ary tree with k levels."""

    fanout: int  # m
    levels: int  # k

    def __post_init__(self) -> None:
        if self.fanout < 1 or self.levels < 1:
            raise InvalidInputError(f"a tree of {self.levels} levels and fan-out {self.fanout}: both must be 1 or more")
        if self.levels * (self.fanout > 1) * self.fanout.bit_length() > TREE_BROKERS_MAX.bit_length() * 2:
            raise InvalidInputError(f"a tree of {self.levels} levels and fan-out {self.fanout} is too large")

    @property
    def brokers(self) -> int:
        """(3.12)."""
        return sum(self.fanout**level for level in range(self.levels))

    @property
    def leaves(self) -> int:
        """(3.13)."""
        return int(self.fanout ** (self.levels - 1))

    @property
    def links(self) -> int:
        """(3.14)."""
        return self.brokers - 1


@dataclass(frozen=True)
class Demand:
    """The demand of all clients together, spread evenly over leaves and classes."""

    subscriptions: float  # N: active on average
    classes: int  # z
    lifetime: float  # 1/µ, seconds
    refresh: float  # ρ, seconds
    publications: float  # ω: of all classes, per second

    def __post_init__(self) -> None:
        if min(self.lifetime, self.refresh) <= 0 or self.classes < 1:
            raise InvalidInputError("lifetime and refresh must be above 0 seconds, and there must be a class")
        if min(self.subscriptions, self.publications) < 0:
            raise InvalidInputError("subscriptions and publications cannot be fewer than 0")


def subscriptions_per_leaf(tree: CompleteTree, demand: Demand) -> float:
    """n, of one class (3.16, 3.19)."""
    return demand.subscriptions / (tree.leaves * demand.classes)


def nobody_at_leaf(tree: CompleteTree, demand: Demand) -> float:
    """p0: no subscription of a class at a leaf (3.18)."""
    return exp(-subscriptions_per_leaf(tree, demand))


def at_leaf(tree: CompleteTree, demand: Demand, count: int) -> float:
    """p_i: exactly so many subscriptions of a class at a leaf (3.17)."""
    mean = subscriptions_per_leaf(tree, demand)
    probability = exp(-mean)
    for i in range(1, count + 1):
        probability *= mean / i
    return probability


def entries(tree: CompleteTree, demand: Demand) -> float:
    """x: occupied remote entries (3.22)."""
    p0, m, k = nobody_at_leaf(tree, demand), tree.fanout, tree.levels
    unwanted = float(sum(m ** (i + 1) * p0 ** (m ** (k - 2 - i)) for i in range(k - 1)))
    return demand.classes * (tree.links - unwanted)


def messages_per_toggle(tree: CompleteTree, demand: Demand) -> float:
    """o: levels that a change at a leaf is propagated upwards (3.27)."""
    p0 = nobody_at_leaf(tree, demand)
    return float(sum(p0 ** (tree.fanout**i - 1) for i in range(tree.levels - 1)))


def toggles(tree: CompleteTree, demand: Demand) -> float:
    """m_o: first subscriptions and last unsubscriptions at leaves, per second (3.29, 3.30)."""
    n = subscriptions_per_leaf(tree, demand)
    return tree.leaves * demand.classes * 2 * n / demand.lifetime * exp(-n)


def costs(tree: CompleteTree, demand: Demand, publishers: Publishers = Publishers.ROOT) -> Costs:
    """(3.20)–(3.34)."""
    x = entries(tree, demand)
    o = messages_per_toggle(tree, demand)
    at_leaves = publishers is Publishers.LEAVES
    return Costs(
        entries=x,
        flooding=demand.publications * tree.links,
        filtering=demand.publications * x / demand.classes,
        detour=demand.publications * nobody_at_leaf(tree, demand) * o if at_leaves else 0.0,
        leases=x / demand.refresh,
        toggles=o * toggles(tree, demand),
    )


# Conversion to a network, to compare both forms of the model ----------------------------------------------------------


def as_network(tree: CompleteTree, demand: Demand, publishers: Publishers = Publishers.ROOT) -> Network:
    levels = [[_name(level, place) for place in range(tree.fanout**level)] for level in range(tree.levels)]
    children = {
        parent: below[place * tree.fanout : (place + 1) * tree.fanout]
        for above, below in pairwise(levels)
        for place, parent in enumerate(above)
    }
    return Network(levels[0][0], children, [_class(levels, tree, demand, publishers)], demand.refresh)


def _name(level: int, place: int) -> Broker:
    return f"{level}.{place}"


def _class(levels: list[list[Broker]], tree: CompleteTree, demand: Demand, publishers: Publishers) -> FilterClass:
    """One class that stands for all equal ones."""
    departures = 1 / demand.lifetime
    arrivals = subscriptions_per_leaf(tree, demand) * departures
    publishing = levels[0] if publishers is Publishers.ROOT else levels[-1]
    each = demand.publications / demand.classes / len(publishing)
    at = {broker: Rates(arrivals, departures) for broker in levels[-1]}
    for broker in publishing:
        at[broker] = at.get(broker, Rates(0.0, departures))._replace(publications=each)
    return FilterClass(at, demand.classes)
