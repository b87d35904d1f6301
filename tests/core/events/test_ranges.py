"""Sets of values: every operation agrees with trying all values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.ranges import (
    EVERYTHING,
    NOTHING,
    Ranges,
    above,
    below,
    complement,
    disjoint,
    includes,
    intersection,
    interval_prefix,
    point,
    prefix_end,
    prefixed,
    union,
    union_of,
)
from support.events.algebra_domain import BYTES, NULS, NUMBERS, TEXTS, WORDS, examples

SOME_TEXTS = TEXTS[:12] + NULS

# Mentioned values, and values of which one lies in every set that cuts beside mentioned values can make: the first
# value above a cut beside v is v itself or v followed by NUL.
AXES = {
    "numbers": ([n for n in NUMBERS if n == int(n)], NUMBERS),
    "strings": (SOME_TEXTS, sorted({*WORDS, *SOME_TEXTS, *(text + "\0" for text in SOME_TEXTS)})),
    "bytes": (BYTES, sorted({*BYTES, *(each + b"\0" for each in BYTES)})),
}


@st.composite
def sets(draw, values):
    made = draw(
        st.lists(
            st.builds(
                lambda make, value, inclusive: make(value, inclusive=inclusive),
                st.sampled_from([below, above]),
                st.sampled_from(values),
                st.booleans(),
            )
            | st.sampled_from(values).map(point),
            min_size=1,
            max_size=4,
        )
    )
    result = made[0]
    for each in made[1:]:
        result = draw(st.sampled_from([union, intersection]))(result, each)
    return complement(result) if draw(st.booleans()) else result


@pytest.mark.parametrize("axis", AXES)
@examples(120)
@given(st.data())
def test_operations_agree_with_membership(axis, data):
    mentioned, domain = AXES[axis]
    a, b = data.draw(sets(mentioned)), data.draw(sets(mentioned))
    for value in domain:
        assert (value in union(a, b)) == (value in a or value in b)
        assert (value in intersection(a, b)) == (value in a and value in b)
        assert (value in complement(a)) == (value not in a)
    members_a, members_b = ({v for v in domain if v in each} for each in (a, b))
    assert includes(a, b) == (members_b <= members_a)
    assert disjoint(a, b) == members_a.isdisjoint(members_b)
    assert a.is_empty == (not members_a)
    assert (a == b) == (members_a == members_b), "each set has one spelling"
    listed = a.points()
    if listed is not None:
        assert set(listed) == members_a


def test_points_of_neighbouring_strings():
    assert point("").points() == ("",)
    assert point("a\0").points() == ("a\0",)
    assert union(point("a"), point("a\0")).points() == ("a", "a\0")
    assert below("\0", inclusive=True).points() == ("", "\0")
    assert below("b", inclusive=False).points() is None
    assert below("\0" * 100, inclusive=True).points() is None, "long runs are not listed"
    assert NOTHING.points() == ()
    assert EVERYTHING.points() is None


def test_nothing_lies_below_the_empty_string():
    assert below("", inclusive=False) == NOTHING
    assert above(b"", inclusive=True) == EVERYTHING
    assert below(0, inclusive=False) != NOTHING


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("ab", "ac"),
        ("a\0", "a\x01"),
        ("\ud7ff", "\ue000"),  # the surrogates between are no characters
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
    ],
)
def test_prefix_end(text, end):
    assert prefix_end(text) == end
    ranges = prefixed(text)
    for value in [text, text + "\0", text + "zz", text + "\U0010ffff" * 3]:
        assert value in ranges
    if end is not None:
        assert end not in ranges
        assert interval_prefix(*next(ranges.intervals())) == text


def test_union_of_many_is_their_union():
    assert union_of([]) == NOTHING
    assert union_of(map(point, range(9))).points() == tuple(range(9))
    assert union_of([point(1), EVERYTHING]) == EVERYTHING
    assert isinstance(union_of([point(1)]), Ranges)
