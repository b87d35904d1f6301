"""What judgements about curves are made of, and the numbers on their axes."""

import pytest
from made_up import summary

from pleach.lab.scales import percent, plain
from pleach.lab.trends import ordered, trend


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


def test_points_are_put_in_order():
    assert [point.mean for point in ordered(points(7, 8, 9)[::-1], "x")] == [7, 8, 9]


def test_numbers_as_people_write_them():
    assert [plain(value) for value in (0.01, 0.0, 0.5, 1.0, 20_000)] == ["0.01", "0", "0.5", "1", "20,000"]
    assert percent(-0.253) == "-25%"
