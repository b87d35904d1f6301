"""What judgements about curves are made of, and the numbers on their axes."""

from math import nan

import pytest

from pleach.lab.figure_style import percent, plain
from pleach.lab.trends import Estimate, are_told_apart, as_told, is_below, linear_growth, ordered, pooled, slope, trend
from support.lab.made_up_summaries import summary


def points(*means):
    return [summary({"x": x}, "metric", mean) for x, mean in enumerate(means)]


def test_a_line_fits_itself():
    found = trend(points(1, 3, 5, 7), "x")
    assert found == (pytest.approx(2.0), pytest.approx(1.0), pytest.approx(1.0))
    assert found.rises


def test_what_falls_does_not_rise_and_what_is_flat_fits_no_slope():
    assert trend(points(5, 4, 2), "x").fit < -0.9
    assert not trend(points(5, 4, 2), "x").rises
    assert trend(points(3, 3, 3), "x").fit == 0.0


def unsure(found, spread):
    return [point._replace(low=point.mean - spread, high=point.mean + spread) for point in found]


def single(found):
    return [point._replace(low=nan, high=nan, seeds=1) for point in found]


def held(growth):
    return growth.grows.holds, growth.linear.holds


def test_growth_in_a_line_and_otherwise():
    assert held(linear_growth("losses", points(1, 2, 3, 4, 5), "x")) == (True, True)
    assert held(linear_growth("losses", points(1, 1, 1, 30, 2), "x")) == (True, False)
    assert held(linear_growth("losses", points(5, 4, 3, 2, 1), "x")) == (False, False)
    assert held(linear_growth("losses", points(3, 3, 3), "x")) == (False, False), "no run differs"


def test_growth_is_not_told_by_wide_intervals_and_two_points_are_no_line():
    assert held(linear_growth("losses", unsure(points(5, 4, 6, 5, 6), 2), "x")) == (None, None)
    assert held(linear_growth("losses", unsure(points(1, 2, 3, 4, 5), 9), "x")) == (True, True), "five in a line"
    assert held(linear_growth("losses", unsure(points(1, 2), 9), "x")) == (None, None)
    assert "one seed" in linear_growth("losses", single(points(1, 2)), "x").grows.name


def test_a_slope_is_told_by_all_points_together():
    """Even where its ends are not told apart, and the points zigzag."""
    zigzag = unsure(points(1, 6, 2, 7, 3, 8, 4, 9, 5, 10), 4.6)
    assert not are_told_apart(zigzag[0], zigzag[-1])
    assert held(linear_growth("losses", zigzag, "x")) == (True, None), "chance may have bent the line"
    assert held(linear_growth("losses", unsure(zigzag, 1), "x")) == (True, False)
    assert held(linear_growth("losses", zigzag[::-1], "x")) == (True, None), "whatever the order of the points"
    assert held(linear_growth("losses", unsure(points(10, 5, 9, 4, 8, 3, 7, 2), 4), "x")) == (False, False)


def test_errors_add_up_in_squares():
    assert slope(unsure(points(1, 2, 3), 1), "x") == (pytest.approx(1.0), pytest.approx(0.5**0.5))
    assert pooled(unsure(points(1, 3, 5, 7), 1)) == (pytest.approx(4.0), pytest.approx(0.5))
    assert Estimate(9.0, 3.0) - Estimate(4.0, 4.0) == (5.0, 5.0)


@pytest.mark.parametrize(
    ("value", "error", "holds"),
    [(3, 2, True), (2, 2, None), (-1, 2, None), (-3, 2, False), (1, 0, True), (0, 0, False)],
)
def test_an_estimate_tells_what_is_beyond_its_error(value, error, holds):
    assert Estimate(value, error).is_above_zero("it grows").holds is holds


def test_an_estimate_of_one_seed_tells_nothing():
    assert pooled(single(points(1, 2))).is_above_zero("it grows") == ("it grows (one seed)", None)


def test_one_seed_tells_nothing_apart():
    low, high = points(1, 2)
    assert are_told_apart(low, high)
    assert is_below("a", low, high) == ("a", True)
    assert is_below("a", high, low) == ("a", False)
    assert is_below("a", *unsure((low, high), 1)).holds is None
    assert not are_told_apart(*single((low, high)))
    assert is_below("a", *single((low, high))) == ("a (one seed)", None)
    assert as_told("a", True, low, *single([high])).holds is None


def test_points_are_put_in_order():
    assert [point.mean for point in ordered(points(7, 8, 9)[::-1], "x")] == [7, 8, 9]


def test_numbers_as_people_write_them():
    assert [plain(value) for value in (0.01, 0.0, 0.5, 1.0, 20_000)] == ["0.01", "0", "0.5", "1", "20,000"]
    assert percent(-0.253) == "-25%"
