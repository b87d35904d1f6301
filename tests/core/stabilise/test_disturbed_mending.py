"""A broker that is down while tables are mended: Δ counts from its return.

The networks are those of test_state_faults.py; one broker crashes soon after the fault and stays away for longer than
Δ. An entry that should not exist stays as long as its source is silent, so that events are delivered for which nobody
has a subscription: that is why the end of an outage begins the time anew.
"""

from __future__ import annotations

import re
from random import Random

import msgspec
import pytest

from pleach.scenario.model import Routing, Stabiliser
from pleach.scenario.stabilise_settings import stabilisation_of
from pleach.scenario.steps import Crash, Restart
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.liveness import unanswered_clients
from support.stabilise.damaged_networks import FAULT_AT, KINDS, Setting, flaws_of_tables, struck_scenario
from support.thorough import FACTOR

SETTINGS = [
    Setting(Routing.COVERING, hierarchical=False),
    Setting(Routing.SIMPLE, hierarchical=False, advertisements=True),
    Setting(Routing.MERGING, hierarchical=True),
    Setting(Routing.COVERING, hierarchical=False, kind=Stabiliser.REBUILD_PACED),
]
SINCE = re.compile(r" stabilises=\S+ flight=\S+ since=\S+")


def disturbed(seed, setting):
    scenario = struck_scenario(seed, setting)
    within = stabilisation_of(scenario)
    broker = Random(f"disturbed/{seed}").choice(scenario.brokers)
    back_at = FAULT_AT + 1.5 * within
    outage = (Crash(at=FAULT_AT + 0.1, broker=broker), Restart(at=back_at, broker=broker))
    steps = tuple(sorted((*scenario.steps, *outage), key=lambda step: step.at))
    later = max(scenario.duration, back_at + within + 0.5)
    return msgspec.structs.replace(scenario, steps=steps, duration=later), back_at + within


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_all_is_right_again_within_the_bound_after_the_broker_is_back(seed, setting):
    scenario, correct_at = disturbed(seed, setting)
    run = ScenarioRun(scenario, seed, KINDS)
    run.advance(correct_at)
    assert not flaws_of_tables(run.brokers, run.clients)
    result = run.finish()
    assert result.quiet
    assert not judge(result.records).violations
    assert not unanswered_clients(run.clients)


def test_counted_from_the_fault_the_bound_does_not_hold():
    """What the first test is worth."""
    assert any(wrong_by_the_bound_of_the_fault(seed, SETTINGS[0]) for seed in range(20))


def wrong_by_the_bound_of_the_fault(seed, setting):
    scenario, _ = disturbed(seed, setting)
    records = ScenarioRun(scenario, seed, KINDS).finish().records
    return judge(
        [msgspec.structs.replace(record, detail=SINCE.sub("", record.detail)) for record in records]
    ).violations
