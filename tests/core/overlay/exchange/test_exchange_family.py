"""Every exchange protocol on the same networks: what all of them promise, and what each of them breaks (S1 §4.4)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.contract.networks import BY_NAME
from support.overlay.exchange.exchange_networks import FLAT, PROTOCOLS, exchanged, network
from support.thorough import FACTOR

pytestmark = pytest.mark.heavy

SEEDS = 12 * FACTOR  # of each protocol and order: one of each way to route

PLAIN = [combination for combination in FLAT if not combination.advertisements]


def combination_of(seed):
    return FLAT[seed % len(FLAT)]


def replay(seed, protocol, ordering):
    return f"exchanged(network({seed}, {combination_of(seed).name!r}, {protocol!r}, {ordering!s}), {seed})"


def seeds_of(block):
    return [1_000 * block + seed for seed in range(SEEDS)]


@pytest.mark.parametrize("ordering", [Ordering.CAUSAL, Ordering.FIFO])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_new_tree_delivers_everything_to_everyone(protocol, ordering):
    """Tables agree, nothing stays locked or unanswered, r is gone and a is there; no event is spurious.

    The advanced protocol breaks nothing on the way either: nothing at all under causal order, nothing but causal
    order under fifo.
    """
    broken, done, afterwards = Counter(), 0, 0
    for seed in seeds_of(block=ordering is Ordering.FIFO):
        result = exchanged(network(seed, combination_of(seed), protocol, ordering), seed)
        assert not result.flaws, (replay(seed, protocol, ordering), result.flaws[:5])
        broken += result.broken
        done += not result.refusals
        afterwards += result.published_afterwards
    assert done > SEEDS * 0.8
    assert afterwards > SEEDS * 5
    if protocol == "advanced-coordinated":
        assert not broken  # of what the network promises
    else:
        assert broken[Rule.LOST] + broken[Rule.DUPLICATE] > 0


def test_what_goes_both_ways_is_lost_nowhere():
    """S1 §4.4.1: coordinated unsubscriptions withdraw nothing before what replaces it is there.

    Not with advertisements: a flush follows those, and the subscriptions that they call for come later.
    """
    for seed in seeds_of(block=2):
        combination = PLAIN[seed % len(PLAIN)]
        scenario = network(seed, combination, "coordinated", Ordering.NONE)
        steady = msgspec.structs.replace(scenario, steps=tuple(s for s in scenario.steps if not hasattr(s, "client")))
        result = exchanged(steady, seed)
        assert not result.flaws, seed
        assert not result.broken[Rule.LOST], seed


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hierarchical_routing_is_refused_with_a_reason(protocol):
    hierarchical = BY_NAME["covering/hierarchical"]
    result = exchanged(network(3, hierarchical, protocol, Ordering.NONE), 3)
    assert not result.flaws
    assert not result.broken
    assert "hierarchical" in result.refusals[0]
