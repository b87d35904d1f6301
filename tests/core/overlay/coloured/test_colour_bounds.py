"""The bounds of coloured networks, and what a scenario says about periods and groups that do not fit."""

from __future__ import annotations

import pytest

from pleach.core.overlay.coloured.bounds import (
    ColouredConfig,
    check,
    flight,
    period_min,
    printed_period_min,
    printed_stabilisation,
    printed_timeout,
    stabilisation,
)
from pleach.errors import ColouringError, ScenarioError
from pleach.scenario.coloured_settings import colouring_of
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import flight_of, stabilisation_of

GIVEN = ColouredConfig(period=2.0, refresh=0.5, low=0.01, high=0.05, height=4, group=("a", "b"))


def test_our_bounds():
    assert period_min(GIVEN) == pytest.approx(0.5 + 8 * 0.05 + 0.04)
    assert GIVEN.timeout == pytest.approx(2.0 + 5 * 0.05)
    assert GIVEN.answer == pytest.approx(7 * 0.05)
    assert stabilisation(GIVEN) == pytest.approx(8.0 + 29 * 0.05 + 4 * 7 * 0.05)
    assert flight(GIVEN) == pytest.approx(2.0 + 13 * 0.05)


def test_events_under_way_ask_for_a_period_too():
    quick = ColouredConfig(period=2.0, refresh=0.01, low=0.01, high=0.05, height=4, group=("a",))
    assert period_min(quick) == pytest.approx(12 * 0.05)


def test_s1_4_1_to_4_3():
    assert printed_timeout(GIVEN) == pytest.approx(2.0 + 4 * 0.04)
    assert printed_period_min(GIVEN) == pytest.approx(0.5 + 8 * 0.05)
    assert printed_stabilisation(GIVEN) == pytest.approx(8.0 + 4 * 0.09)
    assert printed_timeout(GIVEN) < GIVEN.timeout
    assert printed_period_min(GIVEN) < period_min(GIVEN)
    assert printed_stabilisation(GIVEN) < stabilisation(GIVEN)


def test_a_period_that_is_just_long_enough_is_not():
    with pytest.raises(ColouringError, match=r"`period` is 0.94 s; more than 0.94 s is wanted"):
        check(ColouredConfig(period=0.94, refresh=0.5, low=0.01, high=0.05, height=4, group=("a",)))
    check(ColouredConfig(period=0.941, refresh=0.5, low=0.01, high=0.05, height=4, group=("a",)))


# In scenarios -------------------------------------------------------------------------------------------------

SCENARIO = """
name = "x"
routing = "covering"
links = [["a", "b"], ["b", "c"], ["b", "d"]]
duration = 9.0
{more}
[latency]
default = [0.1, 0.2]
[stabilise]
kind = "coloured"
refresh = 1.0
{stabilise}
"""


def scenario(stabilise="period = 3.0", more=""):
    return parse_scenario(SCENARIO.format(stabilise=stabilise, more=more), file="x.toml")


def test_what_the_network_agrees_on_follows_from_the_scenario():
    found = colouring_of(scenario())
    assert found == ColouredConfig(period=3.0, refresh=1.0, low=0.1, high=0.2, height=3, group=("a",), degree=4)
    assert stabilisation_of(scenario()) == stabilisation(found)
    assert flight_of(scenario()) == flight(found)


def test_brokers_that_are_added_later_make_the_tree_higher():
    more = "steps = [{ at = 1.0, do = 'add_broker', broker = 'e', to = 'd' }]"
    assert colouring_of(scenario(more=more)).height == 4


def test_it_can_be_given():
    given = scenario("period = 3.0\nheight = 2\ndelay = [0.0, 0.3]\ngroup = ['a', 'c']\ndegree = 7")
    assert colouring_of(given) == ColouredConfig(
        period=3.0, refresh=1.0, low=0.0, high=0.3, height=2, group=("a", "c"), degree=7
    )


@pytest.mark.parametrize(
    ("stabilise", "more", "line", "says"),
    [
        ("period = 2.2", "", 12, r"`period` is 2.2 s; more than 2.3 s is wanted"),
        ("period = 3.0\ndiameter = 3", "", 13, "`diameter` has no meaning with colours"),
        ("period = 3.0\nrenewal = 'relayed'", "", 13, "`renewal` has no meaning with colours"),
        ("period = 3.0\nvariant = 2", "", 13, "`variant` has no meaning with colours"),
        ("period = 3.0\ncyclic = true", "", 13, "only rebuilt tables can be `cyclic`"),
        ("period = 3.0\ngroup = ['a', 'q']", "", 13, "'q' is not a broker"),
        ("period = 3.0\ngroup = ['b', 'a']", "", 13, "the first of the group is the root; `root` is 'a'"),
        ("period = 3.0\ngroup = ['a', 'a']", "", 13, "names 'a' twice"),
        ("period = 3.0", "advertisements = true", 9, "colours have no advertisements"),
        (
            "period = 3.0",
            "steps = [{at = 1, do = 'crash', broker = 'b', for_good = true}, {at = 2, do = 'restart', broker = 'b'}]",
            6,
            "has crashed for good",
        ),
    ],
)
def test_what_does_not_fit_is_refused(stabilise, more, line, says):
    with pytest.raises(ScenarioError, match=says) as error:
        scenario(stabilise, more)
    assert error.value.line == line
