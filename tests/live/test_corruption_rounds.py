"""A damaged broker among nine processes under load: a sample of what `corruption_rounds.py` does over and over."""

from corruption_rounds import Damage, run_rounds

from pleach.scenario.model import Stabiliser
from pleach.trace import explain


def test_deliveries_are_right_again_within_the_bound_and_the_metrics_show_it(tmp_path):
    found = run_rounds(1, 1, tmp_path)
    verdict, watch, struck = found.verdict, found.watch, found.rounds[0]
    assert found.result.quiet
    assert verdict.clean, explain(verdict, found.result.records)
    assert verdict.counts.suspensions == 1
    assert verdict.counts.clients == 30
    assert verdict.counts.deliveries > 300
    assert struck.last_after <= found.bound
    assert watch.rise("lease_expired", 0.0, struck.at) == 0
    assert watch.rise("lease_restored", struck.at, struck.until) > 0
    assert watch.rise("renewals_received", struck.at, struck.until) > 100


def test_where_tables_are_rebuilt_the_next_rounds_put_them_right(tmp_path):
    found = run_rounds(1, 3, tmp_path, Damage(kind=Stabiliser.REBUILD))
    verdict, watch, struck = found.verdict, found.watch, found.rounds[0]
    assert found.result.quiet
    assert verdict.clean, explain(verdict, found.result.records)
    assert (verdict.counts.suspensions, verdict.counts.clients) == (1, 30)
    assert verdict.counts.deliveries > 300
    assert struck.last_after <= found.bound
    assert watch.rise("lease_expired", 0.0, struck.at) == 0
    wrong = [watch.rise(key, struck.at, struck.until) for key in ("lease_expired", "lease_restored", "rebuild_missing")]
    assert sum(wrong) > 0
    assert watch.rise("rebuild_rounds", struck.at, struck.until) >= 18, "two of each of nine brokers"
