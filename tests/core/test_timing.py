"""Timing that follows from names: spread, the same in every run, and within its bounds."""

import math

import pytest

from pleach.core.timing import jitter, phase_of, within

NAMES = [f"broker{n}" for n in range(200)]


def test_jitter_is_a_factor_around_one_and_differs_from_name_to_name():
    factors = [jitter(name) for name in NAMES]
    assert all(0.5 <= factor <= 1.5 for factor in factors)
    assert len(set(factors)) == len(NAMES)
    assert min(factors) < 0.6
    assert max(factors) > 1.4
    assert factors == [jitter(name) for name in NAMES]


def test_first_delays_are_spread_over_the_period_and_never_zero():
    delays = [phase_of(name, 8.0) for name in NAMES]
    assert all(0 < delay <= 8.0 for delay in delays)
    assert min(delays) < 1
    assert max(delays) > 7


@pytest.mark.parametrize(
    ("seconds", "meant"),
    [(3.0, 3.0), (10.0, 10.0), (12.0, 2.0), (-1.0, 9.0), (0.0, 10.0), (math.inf, 10.0), (math.nan, 10.0)],
)
def test_a_damaged_timer_is_late_by_one_period_at_most(seconds, meant):
    assert within(seconds, 10.0) == meant
