"""What an exchange costs, against the papers' figures: S1 Fig. 4.14 and S2 Fig. 4 and 5, in small."""

from __future__ import annotations

import pytest

from pleach.lab.exchanges.consequences import run_exchange
from pleach.lab.exchanges.workload import ExchangeWorkload, workload_scenario
from pleach.lab.s2.path import Dispatchers, overheads
from pleach.scenario.model import Ordering
from support.thorough import FACTOR

SPARSE, LOW, HIGH = 0.2, 1.0, 50.0
SEEDS = range(6 * FACTOR)
SAVED_MIN = 0.7  # S2 §5: 70% with few events


def total(setting, exchange, seeds):
    return sum(s.value for seed in seeds for s in overheads(setting, seed, exchange) if s.metric == "overhead")


@pytest.mark.heavy
def test_the_path_protocol_saves_most_of_what_the_strawman_costs():
    """S2 Fig. 4, top: few subscribers, few events."""
    setting = Dispatchers(60, SPARSE, LOW)
    path, strawman = (total(setting, exchange, SEEDS) for exchange in ("path", "strawman"))
    assert 1 - path / strawman >= SAVED_MIN


def test_under_load_the_path_protocol_is_better_than_a_delay():
    """S2 Fig. 5: obsolete routes that stay for a while carry many events."""
    setting = Dispatchers(30, SPARSE, HIGH)
    path, deferred = (total(setting, exchange, SEEDS[:2]) for exchange in ("path", "deferred"))
    assert path < deferred / 2


@pytest.mark.parametrize("cycle", range(3, 13))
def test_advanced_coordinated_is_below_the_strawman_at_every_length(cycle):
    """S1 Fig. 4.14."""
    workload = ExchangeWorkload(cycle, is_lively=False)
    coordinated, strawman = (
        run_exchange(workload_scenario(workload, 1, exchange, Ordering.CAUSAL), 1).witness
        for exchange in ("advanced-coordinated", "strawman")
    )
    assert 0 < coordinated.overhead < strawman.overhead
    assert 0 < coordinated.traffic.control < strawman.traffic.control
