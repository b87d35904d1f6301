"""Keys on a circle, each rule against the plain enumeration of all keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.ring.config import RingConfig
from pleach.core.ring.keys import Arc, circle
from pleach.errors import RingError

SMALL = circle(4)
keys = st.integers(0, SMALL.size - 1)


def clockwise(low, high):
    """All keys behind `low`, up to `high`."""
    return [(low + step) % SMALL.size for step in range(1, ((high - low - 1) % SMALL.size) + 2)]


@given(keys, keys, keys)
def test_between_is_strict_and_all_but_itself_lies_between_a_key_and_itself(low, key, high):
    assert SMALL.is_between(low, key, high) == (key in clockwise(low, high)[:-1])


@given(keys, keys)
def test_an_arc_has_the_keys_behind_its_low_end_up_to_its_high_one(low, high):
    arc = Arc(SMALL, low, high)
    assert sorted(clockwise(low, high)) == [key for key in range(SMALL.size) if key in arc]
    assert arc.length == len(clockwise(low, high))
    assert sorted(clockwise(low, high)) == [key for first, last in arc.spans() for key in range(first, last + 1)]


@given(keys, keys, keys, keys)
def test_an_arc_holds_and_meets_intervals(low, high, first, last):
    first, last = sorted((first, last))
    inside = [key in Arc(SMALL, low, high) for key in range(first, last + 1)]
    assert Arc(SMALL, low, high).holds(first, last) == all(inside)
    assert Arc(SMALL, low, high).meets(first, last) == any(inside)


def test_names_are_spread_over_the_circle():
    for bits in (1, 8, 62):
        found = {circle(bits).key_of(f"host {number}") for number in range(400)}
        assert max(found) < 1 << bits
        assert len(found) >= min(1 << bits, 390) * 0.7


@pytest.mark.parametrize("bits", [0, 63])
def test_bits_that_keys_cannot_have_are_refused(bits):
    with pytest.raises(RingError, match="1 to 62"):
        circle(bits)


@pytest.mark.parametrize(
    "wrong", [{"degree": 2}, {"degree": 65}, {"successors": 0}, {"stabilise_every": 0.0}, {"find_within": float("inf")}]
)
def test_what_a_ring_cannot_be_configured_to_be_is_refused(wrong):
    with pytest.raises(RingError, match=str(next(iter(wrong.values())))):
        RingConfig(**wrong)
