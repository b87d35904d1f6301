"""S0 property 6: during a reconfiguration no event takes longer than on the slower of its paths before and after.

With ordering none and fifo this is exact for swaps and joins. Where a broker leaves it is so for all events but those
between two of its own clients, which go by way of the neighbour and back; S0's proof considers what a routes to them
and leaves out what they say to each other. With causal order an event also waits for what it may depend on.
"""

from __future__ import annotations

import pytest

from pleach.scenario.model import Ordering
from pleach.scenario.steps import AddBroker, RemoveBroker, Swap
from support.overlay.delays import ROUNDING, deliveries, world
from support.thorough import FACTOR

SEEDS = 12 * FACTOR


def excesses(kind, ordering):
    """By how much each event is late."""
    for seed in range(SEEDS):
        for delivery in deliveries(world(seed, kind, ordering), seed):
            yield seed, delivery


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.FIFO])
@pytest.mark.parametrize("kind", [Swap, AddBroker, RemoveBroker])
def test_no_event_is_later_than_on_the_slower_path(kind, ordering):
    count = 0
    for seed, delivery in excesses(kind, ordering):
        count += 1
        assert delivery.excess <= ROUNDING, f"delays {seed}: {delivery}"
    assert count > 100 * SEEDS


@pytest.mark.parametrize("kind", [AddBroker, RemoveBroker])
def test_joining_and_leaving_delay_nothing_for_the_sake_of_causal_order(kind):
    assert all(delivery.excess <= ROUNDING for _, delivery in excesses(kind, Ordering.CAUSAL))


def test_causal_order_delays_few_events_and_not_for_long():
    """An event waits behind held ones of its link: never as long as once around the triangle.

    Measured over 300 swaps: 68 of 435,253 deliveries, by up to 22 ms, 0.82 of the way around.
    """
    late = []
    for seed in range(SEEDS):
        setup = world(seed, Swap, Ordering.CAUSAL)
        late += [d.excess / setup.around_the_triangle for d in deliveries(setup, seed) if d.excess > ROUNDING]
    assert late, "if none is late, documentation may promise more"
    assert max(late) < 1.0


def test_the_bound_is_reached():
    """Else the paths would be computed too long: events far from the operation take exactly their path."""
    tight = [delivery for _, delivery in excesses(Swap, Ordering.FIFO) if abs(delivery.excess) <= ROUNDING]
    assert len(tight) > 100 * SEEDS
