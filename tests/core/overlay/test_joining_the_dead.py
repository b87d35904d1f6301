"""A broker joins one that is leaving and dies for good meanwhile: nobody stands in for that one, and it is told so."""

from __future__ import annotations

import msgspec
import pytest

from pleach.scenario.load import parse_scenario
from pleach.scenario.steps import AddBroker, Crash, Restart
from support.overlay.judgement import outcome

SCENARIO = """
name = "joining one that leaves, and dies"
routing = "simple"
ordering = "fifo"
links = [["a", "b"], ["b", "c"]]
duration = 2.0

[latency]
default = 0.001

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "a"
publish = { every = 0.01, until = 1.4, attributes = { x = 1 } }

[[clients]]
id = "s"
broker = "c"
subscribe = ["x = 1"]

[[steps]]
at = 1.0
do = "remove_broker"
broker = "a"
"""
JOINING = [AddBroker(at=1.003, broker="x", to="a"), Crash(at=1.0035, broker="a", for_good=True)]
OUTAGE = [Crash(at=1.0032, broker="x"), Restart(at=1.5, broker="x")]


@pytest.mark.parametrize("outage", [[], OUTAGE], ids=["it is there", "it is down just then"])
def test_whoever_joins_one_that_left_and_died_is_refused(outage):
    scenario = parse_scenario(SCENARIO, "joining.toml")
    watched, verdict, flaws = outcome(msgspec.structs.replace(scenario, steps=(*scenario.steps, *JOINING, *outage)), 1)
    assert flaws == []
    assert watched.refused == ["remove_broker: broker a has died", "add_broker: a died meanwhile"]
    assert sorted(watched.run.brokers) == ["b", "c"]
    assert verdict.counts.deliveries > 100
