"""What of a scenario with faults cannot be had on real processes: refused before anything starts, with what to do."""

import asyncio

import pytest

from pleach.errors import InvalidInputError
from pleach.harness.run import run_live
from pleach.scenario.load import parse_scenario
from pleach.sim.run import run_scenario

STEPS = """
name = "an old state"
routing = "covering"
ordering = "fifo"
links = [["a", "b"]]
duration = 9.0
stabilise = {{ kind = "{kind}", refresh = 0.4, period = 1.2 }}
steps = [{{ at = 2.0, do = "crash", broker = "b" }}, {{ at = 2.1, do = "restart", broker = "b", state_from = 1.0 }}]
[latency]
default = [0.001, 0.002]
"""


@pytest.mark.parametrize("kind", ["leases", "rebuild"])
def test_a_restart_from_a_backup_is_refused_and_nothing_is_started(kind, tmp_path):
    scenario = parse_scenario(STEPS.format(kind=kind))
    assert not run_scenario(scenario, 1).refusals, "the simulator does it"
    with pytest.raises(InvalidInputError, match=r"restart of b at 2\.1 s.* leave `state_from` out .*corrupt"):
        asyncio.run(run_live(scenario, tmp_path))
    assert not [*tmp_path.iterdir()]
