"""Features of a scenario, and which of them a seed has.

Each feature is on or off by a draw of its own, so that all pairs occur within some hundred seeds, and triples by chance
(tests/sim/test_everything.py counts them). Pairs that the network refuses stand in `EXCLUDED`, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from random import Random
from types import MappingProxyType

from pleach.scenario.model import Ordering, Routing


class Feature(StrEnum):
    HIERARCHICAL = "hierarchical"
    ADVERTISEMENTS = "advertisements"
    SWAPS = "swaps"
    EXCHANGES = "exchanges"
    CYCLES = "cycles"  # exchanges, and swaps, at once along the whole cycle
    JOINS = "joins"
    LEAVES = "leaves"
    MOVES = "moves"  # of clients
    COMPONENTS = "components"  # which move, where clients do
    UNREST = "unrest"  # subscriptions and advertisements that come and go
    LEASES = "leases"
    REBUILD = "rebuild"
    IMPROVE = "improve"
    RING = "ring"
    CRASHES = "crashes"  # and restarts
    CUTS = "cuts"  # of links, healed again
    PARTITIONS = "partitions"  # halves, one alone, one direction only; for a time
    SLOW = "slow"  # links that become slow
    JITTER = "jitter"  # latencies that vary from message to message
    SERVICE = "service"  # brokers take time for a message
    REPLIES = "replies"
    SHARED = "shared"  # filters that several clients share
    DRAINS = "drains"  # the network comes to rest between bouts
    # Where brokers have standbys
    DESTROY = "destroy"  # machines are lost for good: one at a time, again after recovery
    TWO_AT_ONCE = "two-at-once"  # three copies, and two machines lost before there are others
    HOSTS = "hosts"  # machines that host copies only


STANDBY = frozenset({Feature.DESTROY, Feature.TWO_AT_ONCE, Feature.HOSTS})


@dataclass(frozen=True)
class Features:
    """All that a seed decides before the network is drawn. `copies`: of each broker; 1: there are no standbys."""

    on: frozenset[Feature]
    routing: Routing
    ordering: Ordering
    merge_bound: float = 0.0
    copies: int = 1

    def __contains__(self, feature: Feature) -> bool:
        return feature in self.on

    @property
    def names(self) -> tuple[str, ...]:
        copies = [f"copies-{self.copies}"] if self.copies > 1 else []
        return tuple(sorted((*map(str, self.on), str(self.routing), f"order-{self.ordering}", *copies)))


REBUILT_LINKS_STAY = "tables are rebuilt over links that stay (docs/protocols/rebuild.md)"
BY_ROOT = "hierarchical routing goes by the root: links are exchanged by swaps only"

EXCLUDED = MappingProxyType(
    {
        frozenset({Feature.HIERARCHICAL, Feature.CYCLES}): BY_ROOT,
        frozenset({Feature.HIERARCHICAL, Feature.IMPROVE}): BY_ROOT,
        frozenset({Feature.LEASES, Feature.REBUILD}): "a network has one of them",
        **{
            frozenset({Feature.REBUILD, each}): REBUILT_LINKS_STAY
            for each in (
                Feature.SWAPS,
                Feature.EXCHANGES,
                Feature.CYCLES,
                Feature.JOINS,
                Feature.LEAVES,
                Feature.MOVES,
                Feature.IMPROVE,
                Feature.RING,
            )
        },
    }
)

SHARES = MappingProxyType(
    {
        Feature.REBUILD: 0.12,
        Feature.HIERARCHICAL: 0.25,
        Feature.RING: 0.25,
        Feature.SERVICE: 0.25,
        Feature.DESTROY: 0.9,
    }
)
SHARE_USUAL = 0.5


def drawn_features(stream: Random, *, standby: bool, copies: int = 0) -> Features:
    """`copies`: so many for certain, and as many machines less one are lost at once; 0: as drawn."""
    on = {feature for feature in Feature if stream.random() < SHARES.get(feature, SHARE_USUAL)}
    drawn = stream.choice((2, 3)) if standby else 1
    if copies:
        on |= {Feature.DESTROY, Feature.TWO_AT_ONCE}
    copies = copies or drawn
    on -= frozenset() if standby else STANDBY
    on -= frozenset() if copies > 2 and Feature.DESTROY in on else {Feature.TWO_AT_ONCE}
    for pair in EXCLUDED:
        if pair <= on:
            on.discard(_loser(stream, pair))
    routing = stream.choice(list(Routing))
    bound = 0.3 if routing is Routing.MERGING and stream.random() < 0.5 else 0.0
    return Features(frozenset(on), routing, stream.choice(list(Ordering)), bound, copies)


def _loser(stream: Random, pair: frozenset[Feature]) -> Feature:
    """Rebuilding excludes so much that it would hardly ever occur if it did not win."""
    if Feature.REBUILD in pair:
        return next(feature for feature in sorted(pair) if feature is not Feature.REBUILD)
    return stream.choice(sorted(pair))


def possible_pairs(*, standby: bool) -> list[frozenset[Feature]]:
    features = [feature for feature in Feature if standby or feature not in STANDBY]
    return [pair for each in combinations(features, 2) if (pair := frozenset(each)) not in EXCLUDED]
