"""`kill -9` of brokers under load: a sample of what `long_run.py kills` does by the hundred."""

from pleach.trace import explain
from support.live.kill_rounds import run_rounds
from support.thorough import FACTOR

ROUNDS = 8 * FACTOR


def test_killed_brokers_lose_double_and_reorder_nothing(tmp_path):
    result, verdict = run_rounds(ROUNDS, 1, tmp_path, spacing=1.5)
    assert result.quiet
    assert verdict.clean, explain(verdict, result.records)
    crashes = [record for record in result.records if record.detail == "crash"]
    assert len(crashes) >= ROUNDS
    assert verdict.counts.deliveries > 15 * ROUNDS
