"""Gaps between ranges closed, within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.language import parse_filter as f
from pleach.core.events.ranges import Ranges, complement, fill_gaps, includes, intersection, union, union_of
from support.events.algebra_domain import examples

whole = st.integers(0, 60)
intervals = st.tuples(whole, whole).map(sorted).map(lambda ends: f(f"x BETWEEN {ends[0]} AND {ends[1]}"))


def ranges_of(made) -> Ranges:
    return made.conjunctions[0].constraints["x"].ranges


def length(ranges):
    return sum(high[0] - low[0] for low, high in ranges.intervals())


@examples(300)
@given(st.lists(intervals, min_size=1, max_size=6), st.sampled_from([0.05, 0.2, 0.5, 0.9]))
def test_filling_stays_within_the_bound_and_leaves_no_gap_that_would_fit(parts, bound):
    ranges = union_of(map(ranges_of, parts))
    filled = fill_gaps(ranges, bound)
    assert includes(filled, ranges)
    added = length(intersection(filled, complement(ranges))) if filled != ranges else 0
    if filled != ranges:
        assert added <= bound * length(filled) + 1e-9
    gaps = sorted(
        low[0] - high[0]
        for (_, high), (low, _) in zip(list(filled.intervals()), list(filled.intervals())[1:], strict=False)
    )
    if gaps:
        assert not added + gaps[0] <= bound * (length(filled) + gaps[0])


@examples(200)
@given(st.lists(intervals, min_size=2, max_size=5), st.randoms())
def test_filling_depends_on_the_set_alone(parts, random):
    shuffled = [ranges_of(part) for part in parts]
    random.shuffle(shuffled)
    together = shuffled[0]
    for each in shuffled[1:]:
        together = union(together, each)
    assert fill_gaps(together, 0.3) == fill_gaps(union_of(map(ranges_of, parts)), 0.3)


def test_filling_leaves_other_types_and_endless_lengths_alone():
    for text in ["x IN ('a', 'b')", "x IN (FALSE, TRUE)", "x <> 5", "x < -1.7e308 OR x BETWEEN 1.7e308 AND 1.75e308"]:
        ranges = ranges_of(f(text))
        assert fill_gaps(ranges, 0.99) == ranges
    assert fill_gaps(ranges_of(f("x BETWEEN 0 AND 9 AND x <> 5")), 0.01) == ranges_of(f("x BETWEEN 0 AND 9"))
