"""S2 §4.2: a broker that is not on the cycle sees no change of its tables, nor causes one.

Nobody changes what it wants meanwhile, so every routing message that leaves or enters the cycle is one too many.
"""

from __future__ import annotations

import msgspec
import pytest
from exchanged import FLAT, PROTOCOLS, drawn_exchange, network
from judged import Watched
from thorough import FACTOR

from pleach.overlay.plans import Topology
from pleach.scenario.model import Ordering
from pleach.scenario.steps import Drain
from pleach.trace import RecordKind

SEEDS = 36 * FACTOR
PROMISED = ("path", "advanced-coordinated")
SET_UP_AT, EXCHANGE_AT = 0.2, 0.7
ROUTING = ("Install", "Withdraw")
QUIET = [combination for combination in FLAT if not combination.merge_bound]


def steady(seed, protocol):
    """No (un)subscriptions, no faults, and all that was asked for at first is in effect: the exchange is alone."""
    scenario = network(seed, QUIET[seed % len(QUIET)], protocol, Ordering.FIFO)
    exchange = msgspec.structs.replace(drawn_exchange(seed, scenario), at=EXCHANGE_AT)
    return msgspec.structs.replace(scenario, steps=(Drain(at=SET_UP_AT), exchange))


def leaving_the_cycle(seed, protocol):
    scenario = steady(seed, protocol)
    exchange = drawn_exchange(seed, scenario)
    cycle = set(Topology.of(scenario.links, scenario.brokers).path(*exchange.add))
    watched = Watched(scenario, seed, kinds=frozenset(RecordKind))
    watched.finish()
    assert not watched.flaws, seed
    return [
        record
        for record in watched.run.recorder.records
        if record.kind == RecordKind.SEND
        and record.message in ROUTING
        and record.at >= EXCHANGE_AT
        and not {record.node, record.peer} <= cycle
    ]


@pytest.mark.parametrize("protocol", PROMISED)
def test_no_entry_moves_outside_the_cycle(protocol):
    for seed in range(SEEDS):
        found = leaving_the_cycle(seed, protocol)
        assert not found, (seed, QUIET[seed % len(QUIET)].name, found[:3])


def test_the_check_sees_what_the_strawman_moves_there():
    """S1 §4.4.1, its third drawback: unsubscriptions leave the cycle, and the subscriptions follow that undo them."""
    assert sum(map(bool, (leaving_the_cycle(seed, "strawman") for seed in range(SEEDS)))) > SEEDS / 10


def test_there_are_brokers_outside():
    outside = 0
    for seed in range(SEEDS):
        scenario = steady(seed, PROTOCOLS[0])
        exchange = drawn_exchange(seed, scenario)
        outside += len(scenario.brokers) > len(Topology.of(scenario.links, scenario.brokers).path(*exchange.add))
    assert outside > SEEDS / 3
