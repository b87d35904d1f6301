"""Δ counts from the last disturbance: what the records of faults and of ends of outages say to the oracle."""

from __future__ import annotations

import pytest

from pleach.scenario.mending import Mending

FAULT = "corrupt table stabilises=2 flight=0.5"


@pytest.fixture
def mending():
    made = Mending(within=2.0, flight=0.5)
    assert made.struck("corrupt table", 1.0) == FAULT
    return made


def told(since):
    return f" stabilises=2 flight=0.5 since={since:g}"


def test_a_disturbance_before_the_network_is_right_again_postpones_it(mending):
    mending.begins("crash b", 2.9)
    assert mending.ends("crash b", 7.0) == told(1)


def test_one_that_began_before_the_fault_does_too():
    mending = Mending(within=2.0, flight=0.5)
    mending.begins("cut a-b", 0.5)
    mending.struck("corrupt table", 1.0)
    assert mending.ends("cut a-b", 9.0) == told(1)


def test_one_that_begins_later_does_not(mending):
    mending.begins("crash b", 3.1)
    assert mending.ends("crash b", 4.0) == ""


def test_one_may_follow_on_the_other(mending):
    mending.begins("crash b", 2.0)
    assert mending.ends("crash b", 5.0) == told(1)
    mending.begins("cut a-b", 6.9)
    assert mending.ends("cut a-b", 7.5) == told(1)
    mending.begins("crash b", 9.6)
    assert mending.ends("crash b", 9.7) == ""


def test_a_short_one_within_a_long_one_counts(mending):
    """Which ends first does not matter: the state in which the last one leaves the network is to be mended."""
    mending.begins("crash b", 2.0)
    mending.begins("cut a-c", 8.0)
    assert mending.ends("cut a-c", 8.5) == told(1)
    assert mending.ends("crash b", 9.0) == told(1)


def test_a_second_fault_while_the_first_is_mended_counts_from_the_first(mending):
    mending.struck("garble", 2.0)
    mending.begins("crash b", 3.5)
    assert mending.ends("crash b", 4.0) == told(1)


def test_a_fault_after_all_was_mended_is_a_new_one(mending):
    mending.struck("garble", 5.0)
    mending.begins("crash b", 5.5)
    assert mending.ends("crash b", 6.0) == told(5)
