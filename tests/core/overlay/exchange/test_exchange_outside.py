"""S2 §4.2: a broker that is not on the cycle sees no change of its tables, nor causes one.

Nobody changes what it wants meanwhile, so every routing message that leaves or enters the cycle is one too many.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.lab.exchanges.workload import cycle_of
from pleach.scenario.model import Ordering, Routing
from support.overlay.exchange.exchange_networks import COMPOSED, PROTOCOLS, Cycles, entries_outside, exchanged, steady
from support.thorough import FACTOR

pytestmark = pytest.mark.heavy

SEEDS = 36 * FACTOR
PROMISED = ("path", "advanced-coordinated")
OF_S2 = tuple(c for c in COMPOSED if c.routing in (Routing.SIMPLE, Routing.IDENTITY) and not c.advertisements)


def alone(seed, protocol, cycles=Cycles.LONG):
    return steady(seed, COMPOSED[seed % len(COMPOSED)], protocol, Ordering.FIFO, cycles)


@pytest.mark.parametrize("cycles", Cycles)
@pytest.mark.parametrize("protocol", PROMISED)
def test_no_entry_moves_outside_the_cycle(protocol, cycles):
    for seed in range(SEEDS // 2):
        found = entries_outside(alone(seed, protocol, cycles), seed)
        assert not found, (seed, COMPOSED[seed % len(COMPOSED)].name, found[:3])


def test_what_s2_prints_is_the_path_where_nobody_changes_their_mind():
    """Its error needs somebody who unsubscribes and subscribes again; anything else would be one of ours."""
    for seed in range(SEEDS // 3):
        scenario = steady(seed, OF_S2[seed % len(OF_S2)], "path-printed", Ordering.FIFO, Cycles.LONG)
        assert not entries_outside(scenario, seed), seed
        corrected = msgspec.structs.replace(scenario, exchange="path")
        assert exchanged(scenario, seed).broken == exchanged(corrected, seed).broken, seed


def test_the_check_sees_what_the_strawman_moves_there():
    """S1 §4.4.1, its third drawback: unsubscriptions leave the cycle, and the subscriptions follow that undo them."""
    assert sum(map(bool, (entries_outside(alone(seed, "strawman"), seed) for seed in range(SEEDS)))) > SEEDS / 10


def test_there_are_brokers_outside():
    for seed in range(SEEDS):
        scenario = alone(seed, PROTOCOLS[0])
        assert len(scenario.brokers) > len(cycle_of(scenario))
