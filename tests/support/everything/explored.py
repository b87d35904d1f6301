"""Pairs of features in the explorer: a small chain with both, in every order of deliveries up to a number of states."""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from pleach.explore.search import Exploration, explore
from pleach.scenario.model import Scenario
from support.everything.covering import pairs_among
from support.everything.features import COPIES, EXCHANGE, OF_STANDBYS, STABILISERS, Feature, Features, Pair
from support.explore.chains import Chain, client, crash, publish, restart, subscribe, unsubscribe

CLOCK = "renewals go by a clock, which the explorer does not have"
DELAYS = "every delay is tried anyway"
QUIET = "every quiet state is judged anyway"
NO_WORDS = "components are no part of scenarios"
BY_TRAFFIC = "decided by traffic over time, which the explorer does not have"
OWN_RING = "hosts of a ring have an explorer of their own: tests/core/ring/test_ring_interleavings.py"
OWN_STANDBYS = "the rules of standbys are explored by themselves: pleach explore --standby"

NOT_EXPLORED = MappingProxyType(
    {
        **dict.fromkeys((*STABILISERS, Feature.BACKUPS, Feature.DAMAGED_STATE, Feature.DAMAGED_MESSAGES), CLOCK),
        **dict.fromkeys((Feature.CUTS, Feature.PARTITIONS, Feature.SLOW, Feature.JITTER, Feature.SERVICE), DELAYS),
        Feature.MOVES_BOUNDED: "a bound for delays is none where every delay is tried",
        Feature.DRAINS: QUIET,
        **dict.fromkeys((Feature.COMPONENTS, Feature.COMPONENT_MOVES), NO_WORDS),
        Feature.IMPROVE: BY_TRAFFIC,
        Feature.RING: OWN_RING,
        **dict.fromkeys((*(each for each, count in COPIES.items() if count > 1), *sorted(OF_STANDBYS)), OWN_STANDBYS),
    }
)
EXPLORED = tuple(feature for feature in Feature if feature not in NOT_EXPLORED)

WANTED, HIDDEN = "price > 10", "price > 50"
STEPS = MappingProxyType(
    {
        Feature.SWAPS: ("do = 'swap'\nbrokers = ['a', 'b', 'c']",),
        Feature.EXCHANGES: ("do = 'exchange'\nremove = ['a', 'b']\nadd = ['a', 'c']",),
        Feature.JOINS: ("do = 'add_broker'\nbroker = 'd'\nto = 'c'",),
        Feature.LEAVES: ("do = 'remove_broker'\nbroker = 'c'",),
        Feature.PLANS: ("do = 'remove_broker'\nbroker = 'b'",),
        Feature.MOVES: ("do = 'move_client'\nclient = 's'\nto = 'a'",),
        Feature.UNREST: (unsubscribe("s", HIDDEN), subscribe("s", HIDDEN)),
        Feature.CHANGING_ADVERTISEMENTS: (
            "do = 'unadvertise'\nclient = 'p'\nfilter = 'price > 0'",
            "do = 'advertise'\nclient = 'p'\nfilter = 'price > 0'",
        ),
        Feature.CRASHES: (crash("b"), restart("b")),
    }
)
ANSWERS = f"\nreply = {{ to = '{HIDDEN}', with = {{ answer = {{ sequence = true }} }} }}"


def explored_pairs() -> tuple[Pair, ...]:
    return pairs_among(EXPLORED)


def chain_of(features: Features) -> Scenario:
    """p publishes at a, s subscribes at b, t at c; the others are steps in the order of `STEPS`."""
    steps = [step for feature, of in STEPS.items() if feature in features for step in of]
    wanted = HIDDEN if Feature.SHARED in features else WANTED
    chain = Chain(
        routing=features.routing.value,
        hierarchical=Feature.HIERARCHICAL in features,
        advertisements=Feature.ADVERTISEMENTS in features,
        ordering=features.ordering.value,
        clients=(
            client("p", "a") + ("\nadvertise = ['price > 0']" if Feature.ADVERTISEMENTS in features else ""),
            client("s", "b", HIDDEN) + (ANSWERS if Feature.REPLIES in features else ""),
            client("t", "c", wanted, *(("answer > 0",) if Feature.REPLIES in features else ())),
        ),
        steps=(*steps, publish("p", 60)),
    )
    exchange = next(str(each) for each in EXCHANGE if each in features)
    return msgspec.structs.replace(chain.scenario(), exchange=exchange, merge_bound=features.merge_bound)


def explore_pair(features: Features, states: int) -> Exploration:
    return explore(chain_of(features), states_max=states)
