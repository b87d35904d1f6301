"""A consumer that is stopped: the broker's memory stays bounded, the others go on, and it is told when it wakes up."""

import pytest

from support.live import slow_consumer
from support.live.slow_consumer import Plan

# What waits for the stopped one passes the limit after five seconds: fast ones on a busy machine lag by less.
EVICTED = Plan(seconds=1.0, stopped_seconds=7.0, rate=100, limit=165_000)
BELOW_LIMIT = Plan(seconds=1.0, stopped_seconds=2.0, rate=100, limit=50_000_000)
KINDS = {"in memory": False, "with a data directory": True}


@pytest.mark.parametrize("durable", KINDS.values(), ids=KINDS)
def test_a_stopped_consumer_is_sent_away_and_told_when_it_wakes_up(tmp_path, durable):
    verdict = slow_consumer.run(EVICTED, tmp_path, durable=durable)
    assert verdict.faults == []
    assert verdict.evicted == 1
    assert "the broker gave up 'stopped'" in verdict.stopped_told
    assert verdict.stopped_got < verdict.published == 801


def test_a_stopped_consumer_below_the_limit_misses_nothing(tmp_path):
    verdict = slow_consumer.run(BELOW_LIMIT, tmp_path, durable=False)
    assert verdict.faults == []
    assert verdict.evicted == 0
    assert verdict.stopped_got == verdict.published


def test_the_judge_sees_a_gap_that_nobody_was_told_of():
    verdict = slow_consumer.Verdict(published=3, peak_bytes=10**9)
    late = [[0.1, 0.1], [0.1, 0.1]]
    fast = [{"numbers": [0, 2, 1], "late": late, "told": ""}]
    slow_consumer._judge(verdict, Plan(1, 1, 1, 1), fast, {"numbers": [0, 2], "late": late, "told": ""})
    assert len(verdict.faults) == 4
