"""S2 §4.2: a broker that is not on the cycle sees no change of its tables, nor causes one.

Nobody changes what it wants meanwhile, so every routing message that leaves or enters the cycle is one too many.
"""

from __future__ import annotations

import pytest
from exchanged import COMPOSED, PROTOCOLS, drawn_exchange, entries_outside, steady
from thorough import FACTOR

from pleach.overlay.plans import Topology
from pleach.scenario.model import Ordering

SEEDS = 36 * FACTOR
PROMISED = ("path", "advanced-coordinated")


def alone(seed, protocol):
    return steady(seed, COMPOSED[seed % len(COMPOSED)], protocol, Ordering.FIFO)


@pytest.mark.parametrize("protocol", PROMISED)
def test_no_entry_moves_outside_the_cycle(protocol):
    for seed in range(SEEDS):
        found = entries_outside(alone(seed, protocol), seed)
        assert not found, (seed, COMPOSED[seed % len(COMPOSED)].name, found[:3])


def test_the_check_sees_what_the_strawman_moves_there():
    """S1 §4.4.1, its third drawback: unsubscriptions leave the cycle, and the subscriptions follow that undo them."""
    assert sum(map(bool, (entries_outside(alone(seed, "strawman"), seed) for seed in range(SEEDS)))) > SEEDS / 10


def test_there_are_brokers_outside():
    outside = 0
    for seed in range(SEEDS):
        scenario = alone(seed, PROTOCOLS[0])
        exchange = drawn_exchange(seed, scenario)
        outside += len(scenario.brokers) > len(Topology.of(scenario.links, scenario.brokers).path(*exchange.add))
    assert outside > SEEDS / 3
