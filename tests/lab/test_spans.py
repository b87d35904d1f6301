"""Spans in arrays against sets of moments, one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.lab.s1.chapter3.spans import (
    PLACES_MAX,
    SECOND,
    TIME,
    Spans,
    count_between,
    is_within,
    joined,
    moments,
    places_of,
    seconds_within,
    times_of,
)

LATEST = 12
spans = st.tuples(st.integers(0, 3), st.integers(0, LATEST), st.integers(1, 6))  # place, begin, how long
many_spans = st.lists(spans, max_size=12)


def arrays(pieces):
    places, begins, lasting = (np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True))
    return moments(places, begins), moments(places, begins + lasting)


def made(pieces):
    return joined(*arrays(pieces)) if pieces else joined(np.empty(0, np.int64), np.empty(0, np.int64))


def covered(pieces):
    """Every (place, time) of a list of spans."""
    return {(place, time) for place, begin, lasting in pieces for time in range(begin, begin + lasting)}


@given(many_spans)
def test_what_is_joined_covers_the_same_and_leaves_gaps(pieces):
    found = made(pieces)
    rows = [
        (int(place), int(begin), int(end - begin))
        for place, begin, end in zip(places_of(found.starts), times_of(found.starts), times_of(found.ends), strict=True)
    ]
    assert covered(rows) == covered(pieces)
    assert sum(lasting for _, _, lasting in rows) == len(covered(pieces))
    assert rows == sorted(rows)
    for (place, begin, lasting), (next_place, next_begin, _) in pairwise(rows):
        assert next_place > place or next_begin > begin + lasting


@given(many_spans)
def test_every_moment_is_found_within_or_without(pieces):
    found, inside = made(pieces), covered(pieces)
    everywhere = [(place, time) for place in range(5) for time in range(LATEST + 8)]
    at = moments(*(np.array(column, dtype=np.int64) for column in zip(*everywhere, strict=True)))
    assert is_within(found, at).tolist() == [moment in inside for moment in everywhere]


@given(many_spans, st.integers(0, 10), st.integers(0, 10))
def test_what_lies_in_a_window_is_counted(pieces, low, width):
    found, high = made(pieces), low + width
    inside = [(place, time) for place, time in covered(pieces) if low <= time < high]
    assert seconds_within(found, low, high) == pytest.approx(len(inside) / SECOND)
    begins = [time for time in times_of(found.starts).tolist() if low <= time < high]
    assert count_between(found.starts, low, high) == len(begins)


def test_the_last_place_and_time_fit():
    at = moments(np.array([PLACES_MAX - 1]), np.array([TIME]))
    assert (places_of(at)[0], times_of(at)[0]) == (PLACES_MAX - 1, TIME)
    assert is_within(Spans(at - 1, at), at - 1).all()
