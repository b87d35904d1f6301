"""A damaged broker among nine processes under load: a sample of what `long_run.py corruption` does over and over."""

import pytest

from pleach.scenario.model import Stabiliser
from pleach.trace import explain
from support.live.corruption_rounds import Damage, run_rounds

pytestmark = pytest.mark.timeout(900)  # bounds grow with delays, and fifteen seconds with them


def test_deliveries_are_right_again_within_the_bound_and_the_metrics_show_it(tmp_path):
    struck = mended(run_rounds(1, 1, tmp_path))
    assert struck.rise("lease_restored") > 0
    assert struck.rise("renewals_received") > 100


def test_where_tables_are_rebuilt_the_next_rounds_put_them_right(tmp_path):
    struck = mended(run_rounds(1, 3, tmp_path, Damage(kind=Stabiliser.REBUILD)))
    assert sum(map(struck.rise, ("lease_expired", "lease_restored", "rebuild_missing"))) > 0
    assert struck.rise("rebuild_rounds") >= 18, "two of each of nine brokers"


def mended(found):
    """The one round: nothing ran out before it, and nothing was wrong after the bound."""
    verdict, [struck] = found.verdict, found.rounds
    assert found.result.quiet, found.result.unrest
    assert verdict.clean, explain(verdict, found.result.records)
    assert (verdict.counts.suspensions, verdict.counts.clients) == (1, 30)
    assert verdict.counts.deliveries > 300
    assert struck.before["lease_expired"] == 0
    assert struck.last_after <= struck.bound
    assert struck.judged > 50
    return struck
