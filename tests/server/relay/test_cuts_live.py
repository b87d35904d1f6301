"""Links between living brokers that are cut, on processes: events go on over a relay, each once and in order."""

import asyncio

import pytest

from pleach.trace import Rule
from support.live.cut_rounds import KINDS, cut_rounds
from support.live.machines import standby_flags

CUT_SECONDS = 6.0
PER_SECOND = 100.0
GAP_SECONDS_MAX = 5.5  # two seconds on an idle machine
USUAL = ("silent", "one-way")  # the others take as long, and differ less from these


def judged(kind, place, *settings, seconds=CUT_SECONDS):
    report = asyncio.run(cut_rounds([kind], seconds, place, PER_SECOND, settings=settings, say=lambda _: None))
    assert report.wrong == []
    assert report.figures()["found"] == {rule.value: 0 for rule in Rule}
    return report


@pytest.mark.parametrize(
    "kind", [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_events_go_on_over_a_relay_while_a_link_is_cut(tmp_path, kind):
    (cut,) = judged(kind, tmp_path, "--relay").cuts
    assert cut.gap < GAP_SECONDS_MAX, cut
    if kind != "loss":  # a way that is slow is a way: it is given up only if it is silent
        assert cut.relayed is not None, cut


def test_a_broker_that_is_reached_through_a_relay_is_not_promoted_elsewhere(tmp_path):
    """What a broker says waits for a copy elsewhere, where its own is cut off: that comes first."""
    report = judged("silent", tmp_path, "--relay", *standby_flags(1.0), seconds=15.0)
    (cut,) = report.cuts
    assert cut.relayed is not None, cut
    assert report.moved == []
