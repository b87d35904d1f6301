"""One scenario, two worlds: the simulator and real processes come to the same verdict."""

import asyncio
from pathlib import Path

import pytest

from pleach.harness.run import run_live
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import explain, judge
from support.live.recovery_bounds import judged_as

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "src" / "pleach" / "scenario" / "demo.toml"
EXAMPLES = ROOT / "examples"
SCENARIOS = [
    *(EXAMPLES / f"{name}.toml" for name in ("churn", "advertisements", "reweave", "exchanges", "moves", "leases")),
    DEMO,
]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_verdict_is_the_same(path, tmp_path):
    scenario = load_scenario(path)
    run = run_scenario(scenario, 1)
    simulated = judge(run.records)
    result = asyncio.run(run_live(scenario, tmp_path))
    lived = judge(judged_as(result.records, result.scenario))
    assert result.quiet
    assert lived.clean, explain(lived, result.records)
    assert simulated.clean
    assert lived.counts.subscriptions == simulated.counts.subscriptions
    assert lived.counts.published > simulated.counts.published // 2
    assert list(result.refusals) == [f"{refused.step}: {refused.reason}" for refused in run.refusals]
