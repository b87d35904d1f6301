"""What the seam counts for people who watch: it is no state, and survives nothing."""

from pathlib import Path

from pleach.scenario.load import load_scenario
from pleach.sim.run import ScenarioRun

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_what_is_held_and_flooded_by_swaps_is_counted():
    run = ScenarioRun(load_scenario(EXAMPLES / "swap-under-load.toml"), 1, None)
    brokers = dict(run.brokers)
    result = run.finish()
    marked = sum(record.message == "Marked" for record in result.records)  # flooded, or relayed
    flooded = sum(broker.seam.flooded_total for broker in brokers.values())
    assert 0 < flooded <= marked
    assert sum(broker.seam.held_total for broker in brokers.values()) > 0
    assert not any(broker.seam.held_count for broker in brokers.values())


def test_without_a_change_nothing_is_counted():
    run = ScenarioRun(load_scenario(EXAMPLES / "chain-of-three.toml"), 1, None)
    run.finish()
    assert all(broker.seam.held_total == broker.seam.flooded_total == 0 for broker in run.brokers.values())
