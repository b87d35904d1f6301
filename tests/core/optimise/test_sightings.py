"""Notes of brokers: bounded, complete at their level, and put together to the flows that there were."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.optimise.cost import Flow
from pleach.core.optimise.sightings import (
    NOTE_SECONDS_MAX,
    Seen,
    Sighting,
    SightingLog,
    in_order,
    level_of,
    sampled_traffic,
    seconds_taken,
    spelled_level,
)
from support.thorough import FACTOR

BROKERS = "abcd"


def spelled(event):
    return "/".join(map(str, event))


@given(st.tuples(st.text(min_size=1, max_size=9), st.integers(0, 2**40), st.integers(1, 2**40)))
def test_a_level_is_the_same_for_an_id_and_its_text(event):
    assert spelled_level(spelled(event)) == level_of(event)


@pytest.mark.parametrize("publisher", ["p", "sensor-17", "пресса"])
@pytest.mark.parametrize("period", [1, 2, 10, 16, 64])
def test_a_level_halves_what_there_is_also_of_periodic_traffic(publisher, period):
    """A publisher that takes turns between topics must not have one of them sampled only."""
    events = [(publisher, 1_700_000_000, number * period) for number in range(1, 8_001)]
    for level in range(1, 6):
        share = sum(level_of(event) >= level for event in events) / len(events)
        assert share == pytest.approx(2.0**-level, rel=0.25)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from(Seen)), max_size=400),
    st.integers(1, 40),
    st.lists(st.integers(0, 400), max_size=5),
)
@settings(max_examples=100 * FACTOR)
def test_a_notebook_is_bounded_and_complete_at_the_level_that_it_tells(seen, size, looks_at):
    """Two ask, each with numbers of its own: what one is told must not depend on the other."""
    book, after, other_after = SightingLog(size), 0, 0
    since: list = []
    for place, (number, what) in enumerate(seen):
        event = ("p", 1, number)
        is_new = (spelled(event), what) not in since
        book.note([event], what, 0.0)
        since += [(spelled(event), what)] if is_new else []
        assert len(book) <= size
        if place in looks_at:
            _, other_after = book.told("b", other_after, 1.0)
    report, after = book.told("b", 0, 1.0)
    told = {(note.event, note.seen) for note in report.notes}
    assert told <= {*since}
    assert {each for each in since if spelled_level(each[0]) >= report.level} <= told
    again, _ = book.told("b", after, 1.0)
    assert not again.notes


def test_a_level_goes_down_again_when_there_is_room():
    book = SightingLog(16)
    book.note([("p", 1, number) for number in range(1, 200)], Seen.PUBLISH, 0.0)
    high = book.level
    assert high > 0
    report, after = book.told("b", 0, NOTE_SECONDS_MAX + 1.0)
    assert (report.level, report.notes) == (high, ())
    assert book.level == high - 1
    for level in reversed(range(high - 1)):
        report, after = book.told("b", after, NOTE_SECONDS_MAX + 2.0)
        assert book.level == level
    book.told("b", after, NOTE_SECONDS_MAX + 2.0)
    assert book.level == 0


def test_numbers_of_a_former_life_are_answered_with_all_there_is():
    book = SightingLog()
    book.note([("p", 1, 1)], Seen.DELIVER, 0.0)
    report, after = book.told("b", 900, 2.0)
    assert [(note.event, note.seen, note.at) for note in report.notes] == [("p/1/1", Seen.DELIVER, 2.0)]
    assert after == 1


events_seen = st.lists(
    st.tuples(st.sampled_from(BROKERS), st.frozensets(st.sampled_from(BROKERS)), st.floats(0.0, 10.0)), max_size=120
)


@given(events_seen, st.lists(st.integers(4, 60), min_size=4, max_size=4))
@settings(max_examples=100 * FACTOR)
def test_notes_of_all_brokers_tell_the_flows_of_a_sample_exactly(events, sizes):
    """Brokers have different room, so that they keep different levels."""
    books = {name: SightingLog(size) for name, size in zip(BROKERS, sizes, strict=True)}
    for number, (publisher, others, at) in enumerate(sorted(events, key=lambda each: each[2]), start=1):
        event = (f"client-{publisher}", 1, number)
        books[publisher].note([event], Seen.PUBLISH, at)
        for other in sorted(others):
            books[other].note([event], Seen.DELIVER, at)
    reports = [books[name].told(name, 0, 10.0)[0] for name in BROKERS]
    level = max(report.level for report in reports)
    sightings = Sighting.all_of([(report, 10.0) for report in reports])
    pick = sampled_traffic(sightings, 2.0, 8.0)
    assert pick.one_in == (1 << level if sightings else 1)
    expected = Counter(
        (publisher, others - {publisher})
        for number, (publisher, others, at) in enumerate(sorted(events, key=lambda each: each[2]), start=1)
        if 2.0 <= at < 8.0 and level_of((f"client-{publisher}", 1, number)) >= level
    )
    flows = sorted((Flow(publisher, others, float(n)) for (publisher, others), n in expected.items()), key=in_order)
    assert [*pick.flows] == flows


def test_how_long_events_took_counts_each_broker_once():
    sightings = [
        Sighting("p/1/1", "a", Seen.PUBLISH, 5.0, 0),
        Sighting("p/1/1", "a", Seen.DELIVER, 5.0, 0),
        Sighting("p/1/1", "b", Seen.DELIVER, 5.25, 0),
        Sighting("p/1/1", "c", Seen.DELIVER, 4.99, 0),  # clocks are read over a network
        Sighting("q/1/1", "b", Seen.DELIVER, 5.5, 0),  # nobody knows when it was published
    ]
    assert seconds_taken(sightings, 0.0, 10.0) == [0.25, 0.0]
    assert seconds_taken(sightings, 6.0, 10.0) == []
