"""Features of a network, named as in docs/, and which of them go together.

A network has exactly one value of each of `ONE_OF`, at most one of `AT_MOST_ONE`, and any of the others. `REFUSED` has
the pairs that do not go together, with the reason, and `NEEDS` what a feature is nothing without. Which of them a seed
has: covering.py. The page that tells all of it: docs/reference/matrix.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product
from types import MappingProxyType

from pleach.scenario.model import Ordering, Routing


class Feature(StrEnum):
    # Routing
    FLOODING = "flooding"
    SIMPLE = "simple"
    IDENTITY = "identity"
    COVERING = "covering"
    MERGING = "merging"
    MERGING_BOUNDED = "merging with merge_bound"
    HIERARCHICAL = "hierarchical"
    ADVERTISEMENTS = "advertisements"
    # The order that is kept
    ORDER_NONE = "ordering none"
    ORDER_FIFO = "ordering fifo"
    ORDER_CAUSAL = "ordering causal"
    # How links are exchanged
    SWAPLINK = "swaplink"
    PUBLISHED = "swaplink-published"
    ADVANCED = "advanced-coordinated"
    AUTO = "auto"
    # The tree
    SWAPS = "swaps"
    EXCHANGES = "exchanges"
    JOINS = "joins"
    LEAVES = "leaves"
    PLANS = "plans"  # the removal of a broker with several neighbours
    IMPROVE = "improve"
    RING = "ring"
    # Clients
    MOVES = "moves"
    MOVES_BOUNDED = "moves with delay_max"
    COMPONENTS = "components"
    COMPONENT_MOVES = "moves of components"
    UNREST = "changing subscriptions"
    CHANGING_ADVERTISEMENTS = "changing advertisements"
    REPLIES = "replies"
    SHARED = "shared filters"
    # What mends tables
    LEASES = "leases"
    REBUILD = "rebuild"
    REBUILD_PACED = "rebuild-paced"
    # Faults, and bad weather
    CRASHES = "crashes"  # and restarts
    BACKUPS = "old backups"  # restarts with the state of some time ago
    CUTS = "cuts"
    PARTITIONS = "partitions"  # halves, one alone, one direction only; for a time
    SLOW = "slow links"
    JITTER = "jitter"  # latencies that vary from message to message
    SERVICE = "busy brokers"  # which take time for a message
    DAMAGED_STATE = "damaged state"
    DAMAGED_MESSAGES = "damaged messages"
    DRAINS = "drains"  # the network comes to rest in between
    # Standbys
    ONE_COPY = "no standby"
    COPIES_2 = "two copies"
    COPIES_3 = "three copies"
    DESTROY = "destroyed machines"  # one at a time, again after recovery
    TWO_AT_ONCE = "two destroyed at once"
    HOSTS = "hosts"  # machines that have copies only


Pair = frozenset[Feature]

ROUTING = MappingProxyType(
    {
        Feature.FLOODING: Routing.FLOODING,
        Feature.SIMPLE: Routing.SIMPLE,
        Feature.IDENTITY: Routing.IDENTITY,
        Feature.COVERING: Routing.COVERING,
        Feature.MERGING: Routing.MERGING,
        Feature.MERGING_BOUNDED: Routing.MERGING,
    }
)
ORDERING = MappingProxyType(
    {
        Feature.ORDER_NONE: Ordering.NONE,
        Feature.ORDER_FIFO: Ordering.FIFO,
        Feature.ORDER_CAUSAL: Ordering.CAUSAL,
    }
)
EXCHANGE = (Feature.SWAPLINK, Feature.PUBLISHED, Feature.ADVANCED, Feature.AUTO)
COPIES = MappingProxyType({Feature.ONE_COPY: 1, Feature.COPIES_2: 2, Feature.COPIES_3: 3})
STABILISERS = (Feature.LEASES, Feature.REBUILD, Feature.REBUILD_PACED)
REBUILDS = (Feature.REBUILD, Feature.REBUILD_PACED)

ONE_OF: tuple[tuple[Feature, ...], ...] = (tuple(ROUTING), tuple(ORDERING), EXCHANGE, tuple(COPIES))
AT_MOST_ONE: tuple[tuple[Feature, ...], ...] = (STABILISERS,)

OF_STANDBYS = frozenset({Feature.DESTROY, Feature.TWO_AT_ONCE, Feature.HOSTS})
OF_THE_TREE = (
    Feature.SWAPS,
    Feature.EXCHANGES,
    Feature.JOINS,
    Feature.LEAVES,
    Feature.PLANS,
    Feature.IMPROVE,
    Feature.RING,
)
OF_MOVES = (Feature.MOVES, Feature.MOVES_BOUNDED, Feature.COMPONENT_MOVES)
OUTAGES = (Feature.CRASHES, Feature.BACKUPS, Feature.CUTS, Feature.PARTITIONS, Feature.DESTROY)

ONE_VALUE = "a network has one of them"
BY_ROOT = "hierarchical routing goes by the root: links are exchanged by swaps only"
CAUSAL_LOST = "the published swap does not keep causal order"
LINKS_STAY = "tables are rebuilt over links that stay"
BY_THE_CLOCK = "rounds by the clock do not wait for a broker that comes back; rebuild-paced does"
BY_DELAYS = "rounds by the clock rest on a bound for delays; rebuild-paced waits for evidence"
BOUND_BROKEN = "a move that does not block rests on a bound for delays"
OLD_TREE = "a backup is of the tree as it was then"
OLD_COPY = "an old state is no copy"
SENT_AGAIN = "the simulator numbers the messages of links where there are standbys: a damaged one is sent again"
UNMENDED = "during a drain nothing is renewed, so that nothing is mended (docs/protocols/leases.md)"
SAID_TWICE = "a component that has forgotten what it said says it again"

REFUSED = MappingProxyType(
    {
        **{frozenset(pair): ONE_VALUE for group in (*ONE_OF, *AT_MOST_ONE) for pair in combinations(group, 2)},
        **{
            frozenset({Feature.HIERARCHICAL, each}): BY_ROOT
            for each in (Feature.ADVANCED, Feature.AUTO, Feature.IMPROVE)
        },
        frozenset({Feature.PUBLISHED, Feature.ORDER_CAUSAL}): CAUSAL_LOST,
        frozenset({Feature.BACKUPS, Feature.COMPONENTS}): SAID_TWICE,
        **{frozenset(pair): LINKS_STAY for pair in product(REBUILDS, (*OF_THE_TREE, *OF_MOVES))},
        **{
            frozenset({Feature.REBUILD, each}): BY_THE_CLOCK
            for each in (*OUTAGES, Feature.COPIES_2, Feature.COPIES_3, *OF_STANDBYS)
        },
        **{
            frozenset({Feature.DAMAGED_MESSAGES, each}): SENT_AGAIN
            for each in (Feature.COPIES_2, Feature.COPIES_3, *OF_STANDBYS)
        },
        **{
            frozenset({Feature.DRAINS, each}): UNMENDED
            for each in (Feature.DAMAGED_STATE, Feature.DAMAGED_MESSAGES, Feature.BACKUPS)
        },
        **{frozenset({Feature.REBUILD, each}): BY_DELAYS for each in (Feature.SLOW, Feature.SERVICE)},
        **{frozenset({Feature.MOVES_BOUNDED, each}): BOUND_BROKEN for each in (*OUTAGES, Feature.SERVICE)},
        **{frozenset({Feature.BACKUPS, each}): OLD_TREE for each in (*OF_THE_TREE, *OF_MOVES)},
        **{frozenset({Feature.BACKUPS, each}): OLD_COPY for each in (Feature.COPIES_2, Feature.COPIES_3, *OF_STANDBYS)},
    }
)

# One of each row
NEEDS = MappingProxyType(
    {
        Feature.CHANGING_ADVERTISEMENTS: ((Feature.ADVERTISEMENTS,),),
        Feature.COMPONENT_MOVES: ((Feature.COMPONENTS,),),
        Feature.DAMAGED_STATE: (STABILISERS,),
        Feature.DAMAGED_MESSAGES: (STABILISERS,),
        Feature.BACKUPS: (STABILISERS,),
        Feature.DESTROY: ((Feature.COPIES_2, Feature.COPIES_3),),
        Feature.HOSTS: ((Feature.COPIES_2, Feature.COPIES_3),),
        Feature.TWO_AT_ONCE: ((Feature.COPIES_3,), (Feature.DESTROY,)),
    }
)


@dataclass(frozen=True)
class Features:
    """All that a seed decides before the network is drawn."""

    on: frozenset[Feature]

    def __contains__(self, feature: Feature) -> bool:
        return feature in self.on

    def any(self, *features: Feature) -> bool:
        return not self.on.isdisjoint(features)

    @property
    def routing(self) -> Routing:
        return next(routing for feature, routing in ROUTING.items() if feature in self.on)

    @property
    def ordering(self) -> Ordering:
        return next(ordering for feature, ordering in ORDERING.items() if feature in self.on)

    @property
    def merge_bound(self) -> float:
        return 0.3 if Feature.MERGING_BOUNDED in self.on else 0.0

    @property
    def copies(self) -> int:
        """Of each broker; 1: there are no standbys."""
        return next(copies for feature, copies in COPIES.items() if feature in self.on)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.on)))


def goes_with(feature: Feature, others: AbstractSet[Feature]) -> bool:
    """Whether the feature may be added; what it needs may be missing."""
    return not any(frozenset({feature, other}) in REFUSED for other in others)


def why_not(pair: Pair) -> str:
    """Why no network has both; empty if some have."""
    if pair in REFUSED:
        return REFUSED[pair]
    if completed(pair):
        return ""
    one, other = sorted(pair)
    return _why_not_completed(one, other) or _why_not_completed(other, one)


def _why_not_completed(one: Feature, other: Feature) -> str:
    """What the first one needs, and why the other one excludes each of it."""
    for alternatives in NEEDS.get(one, ()):
        reasons = [why_not(frozenset({each, other})) for each in alternatives]
        if all(reasons):
            needed = f"without {alternatives[0]} there are no {one}"
            return needed if reasons[0] == ONE_VALUE else f"{needed}: {reasons[0]}"
    return ""


def completed(features: AbstractSet[Feature]) -> frozenset[Feature]:
    """The features and what they need, taking the first alternative that goes; empty if there is none."""
    pending = [row for each in sorted(features) for row in NEEDS.get(each, ()) if features.isdisjoint(row)]
    if not pending:
        return frozenset(features)
    for each in pending[0]:
        if goes_with(each, features) and (found := completed(features | {each})):
            return found
    return frozenset()
