"""The oracle in bounded memory says what the oracle says, of clean traces and of traces with planted errors."""

import random

import pytest

from pleach.trace import Ordering, Record, RecordKind, Rule, Verdict, VerdictOutcome, attributes_text, judge
from pleach.trace.online import FILTERS_SPARE, FORGOTTEN, KEPT_MAX, OnlineOracle
from support.thorough import FACTOR
from support.trace.planted_errors import AT_ONE_RECORD, EXACT, Planting
from support.trace.tiny_network import clean_story
from support.trace.written_traces import SUBSCRIBED, script

STORIES = 60 * FACTOR
PLANTS = 25 * FACTOR  # of each kind
LATEST = 1_000.0  # seconds: nothing in these stories comes later


def judged_online(records: list[Record], *, window: float = LATEST, grace: float = LATEST) -> Verdict:
    oracle = OnlineOracle(records[0].run, window=window, grace=grace)
    for record in records:
        oracle.observe(record)
    return oracle.finish()


def found(verdict: Verdict) -> list[tuple]:
    return sorted((one.rule, one.client, one.event, one.index) for one in (*verdict.violations, *verdict.tolerated))


def check_same(records: list[Record], **bounds: float) -> None:
    online, whole = judged_online(records, **bounds), judge(records, Ordering.CAUSAL)
    assert found(online) == found(whole)
    assert online.outcome is whole.outcome
    assert (online.counts.published, online.counts.deliveries) == (whole.counts.published, whole.counts.deliveries)


def longest_way(records: list[Record]) -> float:
    """Seconds from an event's publication to its last record."""
    begun: dict[str, float] = {}
    longest = 0.0
    for record in records:
        if record.event:
            longest = max(longest, record.at - begun.setdefault(record.event, record.at))
    return longest


@pytest.mark.parametrize("seed", range(STORIES))
def test_clean_stories_are_clean_in_a_window_that_fits(seed):
    records = clean_story(seed).records
    check_same(records)
    check_same(records, window=longest_way(records) + 1e-6)


@pytest.mark.parametrize("planting", [*EXACT, *AT_ONE_RECORD], ids=lambda planting: planting.__name__)
def test_planted_errors_are_found_as_by_the_oracle(planting: Planting):
    made = 0
    for seed in range(200_000):
        plant = planting(clean_story(seed), random.Random(seed))
        if plant is None:
            continue
        check_same(plant.records)
        check_same(plant.records, window=longest_way(plant.records) + 1e-6)
        made += 1
        if made == PLANTS:
            return
    raise AssertionError(f"{planting.__name__} is hardly ever possible")


LOST = """
    1 c subscribe s1 | topic = 't1'
    2 c subscribe_ack s1
    3 p publish p/0/1 | {"topic":"t1"}
    4 p publish_ack p/0/1
"""


def test_an_event_that_somebody_waits_for_is_lost_when_the_time_is_over():
    oracle = OnlineOracle("r", window=5, grace=20)
    for record in script(LOST):
        assert not oracle.observe(record)
    assert oracle.standing().waiting == 1
    (later,) = script("30 p publish p/0/2 | {}")
    (lost,) = oracle.observe(later)
    assert (lost.rule, lost.client, lost.event) == (Rule.LOST, "c", "p/0/1")
    assert oracle.standing().found == {Rule.LOST: 1}


def test_what_comes_after_it_was_forgotten_is_spurious_and_says_so():
    oracle = OnlineOracle("r", window=5, grace=20)
    records = script(LOST + "30 - state x\n31 c deliver p/0/1")
    _, late = [found for record in records for found in oracle.observe(record)]
    assert (late.rule, late.reason) == (Rule.SPURIOUS, FORGOTTEN)


def test_an_id_that_is_published_again_after_it_was_forgotten_is_not_judged():
    oracle = OnlineOracle("r", window=5, grace=20)
    got = "\n5 c deliver p/0/1"
    for record in script(LOST + got + '\n30 - state x\n31 p publish p/0/1 | {"topic":"t1"}\n32 c deliver p/0/1'):
        assert not oracle.observe(record)
    assert "published again" in oracle.standing().unusable


def test_a_publication_that_had_failed_may_be_tried_again_after_it_was_forgotten():
    oracle = OnlineOracle("r", window=5, grace=20)
    tried = (
        "1 p publish p/0/1 | {}\n2 p publish_fail p/0/1\n3 p publish p/0/2 | {}\n4 p publish_ack p/0/2\n30 - state x"
    )
    for record in script(tried + "\n31 p publish p/0/1 | {}\n32 p publish_ack p/0/1"):
        assert not oracle.observe(record)
    assert oracle.standing().unusable == ""


def test_memory_is_that_of_a_window():
    """Ten thousand events, of which the last ten seconds are remembered."""
    oracle = OnlineOracle("r", window=10, grace=60)
    for record in script(SUBSCRIBED):
        oracle.observe(record)
    attributes = attributes_text({"topic": "t1"})
    for number in range(1, 10_001):
        event, at = f"p/0/{number}", 10.0 + number / 10
        oracle.observe(Record("r", at, "p", 3 * number, RecordKind.PUBLISH, event, "p", attributes=attributes))
        oracle.observe(Record("r", at, "p", 3 * number + 1, RecordKind.PUBLISH_ACK, event, "p"))
        oracle.observe(Record("r", at, "c", 10 + number, RecordKind.DELIVER, event, "c"))
    assert oracle.standing().remembered < 200
    oracle.observe(Record("r", 2_000.0, "", 1, RecordKind.DRAIN))
    verdict = oracle.finish()
    assert verdict.outcome is VerdictOutcome.CLEAN
    assert (verdict.counts.published, verdict.counts.deliveries) == (10_000, 10_000)


STORM = """
    {0} d subscribe x | topic = 't1' AND price > {0}
    {0} d subscribe_ack x
    {0} p publish p/0/{0} | {{"topic":"t1","price":{0}}}
    {0} p publish_ack p/0/{0}
    {0} c deliver p/0/{0}
    {0}.5 d unsubscribe x
    {0}.5 d unsubscribe_ack x
"""


def test_filters_that_nobody_wants_any_more_are_forgotten():
    oracle = OnlineOracle("r", window=10, grace=60)
    events = range(10, 10 + 20 * FILTERS_SPARE)
    last = events[-1]
    late = f"{last + 1} d subscribe x | price > 0\n{last + 2} d deliver p/0/{last}\n{last + 2} d deliver p/0/{last}"
    *before, wanted, right, again = script(SUBSCRIBED + "".join(map(STORM.format, events)) + late)
    assert not [found for record in before for found in oracle.observe(record)]
    assert len(oracle._candidates) < 2 * FILTERS_SPARE
    assert len(oracle._candidates._answers) < 10
    assert len(oracle._clients._owing) < 10
    assert not oracle.observe(wanted) + oracle.observe(right), "a filter that is newer than the event counts"
    assert [found.rule for found in oracle.observe(again)] == [Rule.DUPLICATE]


def test_breaches_of_an_order_that_is_not_promised_leave_room_for_violations():
    oracle = OnlineOracle("r", Ordering.NONE, window=1e6, grace=1e6)
    numbers = range(KEPT_MAX + 2, 0, -1)
    events = "".join(f'\n{3} p publish p/0/{n} | {{"topic":"t1"}}' for n in sorted(numbers))
    deliveries = "".join(f"\n{4} c deliver p/0/{n}" for n in numbers)
    for record in script(SUBSCRIBED + events + deliveries + f"\n5 c deliver p/0/{numbers[0]}\n6 - drain"):
        oracle.observe(record)
    verdict = oracle.finish()
    assert (len(verdict.tolerated), verdict.count(Rule.DUPLICATE)) == (KEPT_MAX, 1)
    assert verdict.outcome is VerdictOutcome.VIOLATED


def test_a_trace_that_cannot_be_judged_is_unusable_from_then_on():
    oracle = OnlineOracle("r", window=5, grace=20)
    for record in script("1 p publish p/0/1 | {}\n2 p publish p/0/1 | {}"):
        oracle.observe(record)
    assert "published twice" in oracle.standing().unusable
    assert oracle.finish().outcome is VerdictOutcome.UNUSABLE
