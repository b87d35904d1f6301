"""A cache of a time instead of a number: bounded, whole from its level on, and right but for a stated error."""

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.optimise.sightings import spelled_level
from pleach.lab.improve.sampling import HORIZON, SAMPLE_MAX, SHARE_ERROR, level_for
from support.optimise.sample import ROOMY, Sample


def fed(ids, every=1.0, start=0.0):
    sample = Sample()
    for number, each in enumerate(ids):
        sample.consumed(each, start + number * every)
    return sample


def ids(first, last, publisher="p"):
    return [f"{publisher}/0/{i}" for i in range(first, last)]


@given(st.floats(0.0, 1e9))
def test_the_level_is_the_lowest_at_which_events_are_few_enough(events):
    level = level_for(events)
    assert events <= SAMPLE_MAX * 2**level
    assert level == 0 or events > SAMPLE_MAX * 2 ** (level - 1)


def test_few_events_are_all_there_and_counted_exactly():
    mine, theirs = fed(ids(0, 300)), fed(ids(100, 400))
    assert mine.level == 0
    assert len(mine) == 300
    assert 200 <= mine.common(theirs.summary(), theirs.level) <= 203  # a filter says yes too often


@settings(max_examples=10)
@given(st.integers(0, 8_000), st.sampled_from([0.05, 0.2]))
def test_there_are_never_too_many_and_all_of_the_level_and_the_time_are_there(count, every):
    told = ids(0, count)
    sample = fed(told, every)
    assert len(sample) <= SAMPLE_MAX
    now = max(count - 1, 0) * every
    wanted = [e for i, e in enumerate(told) if spelled_level(e) >= sample.level and i * every >= now - HORIZON]
    assert set(wanted) <= set(sample._kept)


def test_what_is_older_than_the_horizon_goes_whatever_the_rate():
    sample = fed(ids(0, 100))
    sample.forget(HORIZON + 50.0)
    assert len(sample) == 50
    sample.forget(2 * HORIZON + 100.0)
    assert len(sample) == 0


@pytest.mark.parametrize("rate", [1, 5, 25])
def test_shares_are_known_but_for_the_error_that_is_stated(rate):
    """30% of what a broker consumes another one does too; the other one is much busier. Four deviations of n/2."""
    events, share = 1_000 * rate, 0.3
    common = ids(0, int(share * events), "both")
    mine = fed([*common, *ids(0, events - len(common), "mine")], every=HORIZON / events / 2)
    theirs = fed([*common, *ids(0, 3 * events, "theirs")], every=HORIZON / events / 8)
    found = mine.common(theirs.summary(), theirs.level) / events
    kept = events / 2 ** max(mine.level, theirs.level)
    assert found == pytest.approx(share, abs=4 / (2 * sqrt(kept)))
    assert (mine.level > 0) is (rate > 1)


def test_a_full_sample_has_the_stated_error():
    assert 1 / (2 * sqrt(SAMPLE_MAX)) == SHARE_ERROR


def test_a_sample_with_much_room_goes_back_by_a_level_but_says_so_only_when_all_is_there():
    sample = fed(ids(0, 4 * SAMPLE_MAX), every=0.1)
    before = sample.level
    assert before >= 2
    quiet = 0.4 * SAMPLE_MAX + HORIZON
    sample.forget(quiet)
    assert ROOMY * len(sample) <= SAMPLE_MAX
    assert sample.level == before  # events of a lower level are still missing
    sample.forget(quiet + HORIZON + 1.0)
    assert sample.level == before - 1
    sample.forget(quiet + 3 * HORIZON)
    assert sample.level < before - 1


def test_an_event_counts_once():
    sample = fed([*ids(0, 5), *ids(0, 5)])
    assert len(sample) == 5
