"""Losses with brokers that never returned, in a real run: both oracles set apart the same."""

import msgspec
import pytest

from pleach.sim.run import run_scenario
from pleach.spark.audit.job import audit
from pleach.trace import Rule, judge, write_trace
from pleach.trace.broker_losses import DIED
from support.overlay.dying_brokers import afflicted, setting_of

SEED = 37  # a network that loses some events with its dead brokers


@pytest.mark.spark
def test_what_sat_on_the_dead_is_set_apart_and_nothing_else(spark, tmp_path):
    records = run_scenario(afflicted(SEED, setting_of(SEED)), SEED).records
    unexcused = [msgspec.structs.replace(r, run="unexcused") for r in records if r.detail != DIED]
    for run in (records, unexcused):
        write_trace(run, tmp_path, run[0].run)
    blamed, whole = sorted(audit(spark, tmp_path).verdicts, key=lambda verdict: verdict.run != "unexcused")
    assert whole == judge(records)
    assert whole.departed
    assert not whole.violations
    assert blamed == judge(unexcused)
    assert blamed.count(Rule.LOST) == len(whole.departed)
