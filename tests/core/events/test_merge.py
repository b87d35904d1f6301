"""Merging: exact where it claims to be, within its bound otherwise."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pleach.core.events.algebra import covers
from pleach.core.events.language import parse_filter as f
from pleach.core.events.language import parse_internal
from pleach.core.events.merge import fill_gaps, merge, merge_within
from pleach.core.events.normalise import filter_of
from pleach.core.events.ranges import Ranges, complement, includes, intersection, union, union_of
from support.events.algebra_domain import FEW_VALUES, constraints, examples

EXACT = [
    ("x > 0", "x > 5", "x > 0"),
    ("x < 0", "x >= 0", "(x < 0 OR x >= 0)"),
    ("x = 1", "x = 2", "x IN (1, 2)"),
    ("t = 'a' AND x < 5", "t = 'a' AND x > 3", "t = 'a' AND (x < 0 OR x >= 0)"),
    ("t = 'a' AND x = 1", "t = 'b' AND x = 1", "t IN ('a', 'b') AND x = 1"),
    ("s LIKE '%a' AND x = 1", "s LIKE '%a' AND x = 2", "s LIKE '%a' AND x IN (1, 2)"),
    ("s LIKE '%a' AND s < 'b'", "s LIKE '%a' AND s > 'c'", "(s < 'b' OR s > 'c') AND s LIKE '%a'"),
    ("x = 1 OR y = 1", "x = 1", "x = 1 OR y = 1"),
    ("EXISTS x", "NOT EXISTS x", "TRUE"),
    ("t = 'a' AND x = 1", "t = 'b' AND x = 2", None),
    ("t = 'a'", "x = 2", None),
    ("x = 1", "x = 'a'", None),
    ("s LIKE '%a'", "s LIKE '%b'", None),
    ("x = 1 OR y = 1", "x = 2", None),
]


@pytest.mark.parametrize(("a", "b", "merged"), EXACT)
def test_merge(a, b, merged):
    expected = None if merged is None else f(merged)
    assert merge(f(a), f(b)) == expected
    assert merge(f(b), f(a)) == expected
    assert merge_within(f(a), f(b), 0) == expected, "a bound of nothing allows nothing"


@examples(150)
@given(st.data())
def test_a_merger_matches_exactly_the_union(data):
    shared = data.draw(st.dictionaries(st.just("y"), constraints, max_size=1))
    a, b = (filter_of({**shared, "x": data.draw(constraints)}) for _ in range(2))
    merged = merge(a, b)
    assume(merged is not None)
    assert parse_internal(merged.text) == merged
    for x, y in product(FEW_VALUES, repeat=2):
        attributes = {name: value for name, value in (("x", x), ("y", y)) if value is not None}
        assert merged.matches(attributes) == (a.matches(attributes) or b.matches(attributes))


WITHIN = [
    ("x BETWEEN 0 AND 4", "x BETWEEN 5 AND 10", 0.1, "x BETWEEN 0 AND 10"),
    ("x BETWEEN 0 AND 4", "x BETWEEN 5 AND 10", 0.09, "(x BETWEEN 0 AND 4 OR x BETWEEN 5 AND 10)"),
    ("t = 'a' AND x BETWEEN 0 AND 4", "t = 'a' AND x BETWEEN 5 AND 10", 0.2, "t = 'a' AND x BETWEEN 0 AND 10"),
    ("x < 0", "x > 100", 0.9, "(x < 0 OR x > 100)"),
    ("x = 1", "x = 2", 0.5, "x IN (1, 2)"),
    ("x = 1", "x = 2", 1.0, "x BETWEEN 1 AND 2"),
    ("x BETWEEN 0 AND 10 AND y BETWEEN 0 AND 9", "x BETWEEN 0 AND 9 AND y BETWEEN 0 AND 10", 0.01,
     "x BETWEEN 0 AND 10 AND y BETWEEN 0 AND 10"),
    ("x BETWEEN 0 AND 10 AND y BETWEEN 0 AND 9", "x BETWEEN 0 AND 9 AND y BETWEEN 0 AND 10", 0.009, None),
    ("x > 0 AND y = 1", "x > 1 AND y = 2", 0.9, None),
    ("x = 1 AND t = 'a'", "x = 2 AND t = 'b'", 1.0, None),
    ("x > 0", "x > 5", 0.5, "x > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "bound", "merged"), WITHIN)
def test_merge_within(a, b, bound, merged):
    expected = None if merged is None else f(merged)
    assert merge_within(f(a), f(b), bound) == expected
    assert merge_within(f(b), f(a), bound) == expected


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


@examples(150)
@given(intervals, intervals, st.sampled_from([0.1, 0.5]))
def test_merging_within_a_bound_covers_both(a, b, bound):
    merged = merge_within(a, b, bound)
    assert merged is not None
    assert covers(merged, a)
    assert covers(merged, b)
