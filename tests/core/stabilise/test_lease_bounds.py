"""The bounds: as S1 has them where they hold, and what a scenario says about periods that do not fit."""

from __future__ import annotations

import pytest

from pleach.core.stabilise.lease_bounds import Delays, check, period_min, stabilisation
from pleach.core.stabilise.lease_settings import Lease, Renewal
from pleach.errors import LeaseError, ScenarioError
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import delays_of, stabilisation_of

S1_TREE = Delays(0.025, 0.025, 8)  # S1 §3.3.3: a constant delay, d = 8


@pytest.mark.parametrize(("refresh", "period", "within"), [(60.0, 60.2, 120.6), (600.0, 600.2, 1200.6)])
def test_s1_table_3_1(refresh, period, within):
    """S1 takes π = ρ + d·δmax there, which is more than its own (3.3) asks for, and what holds with one clock."""
    lease = Lease(refresh=refresh, period=period, renewal=Renewal.RELAYED)
    assert stabilisation(lease, "identity", S1_TREE) == pytest.approx(within)
    assert period_min(lease, "identity", S1_TREE) == pytest.approx(period)
    assert period_min(lease, "simple", S1_TREE) == pytest.approx(refresh), "(3.3)"


DELAYS = Delays(0.01, 0.05, 6)


@pytest.mark.parametrize(
    ("policy", "renewal", "variant", "least", "within"),
    [
        ("flooding", Renewal.HOP_BY_HOP, 1, 1.04, 4.05),  # (3.2), with the client's link
        ("covering", Renewal.HOP_BY_HOP, 1, 1.04, 4.3),
        ("simple", Renewal.RELAYED, 1, 1.24, 4.3),  # (3.3), (3.4)
        ("identity", Renewal.RELAYED, 1, 1.3, 4.3),  # (3.5)
        ("covering", Renewal.RELAYED, 1, 1.3, 4.3),  # (3.6)
        ("covering", Renewal.RELAYED, 2, 1.3, 5.3),  # (3.7)
        ("merging", Renewal.RELAYED, 1, 1.3, 4.3),  # (3.8)
        ("merging", Renewal.RELAYED, 2, 1.3, 5.3),  # (3.9)
    ],
)
def test_every_way_to_renew_has_its_bounds(policy, renewal, variant, least, within):
    lease = Lease(refresh=1.0, period=2.0, renewal=renewal, variant=variant)
    assert period_min(lease, policy, DELAYS) == pytest.approx(least)
    assert stabilisation(lease, policy, DELAYS) == pytest.approx(within)


def test_flooding_with_a_long_way_waits_for_what_is_under_way():
    assert stabilisation(Lease(refresh=1.0, period=2.0), "flooding", Delays(1.0, 1.0, 9)) == 9.0


def test_a_period_that_is_just_long_enough_is_not():
    least = period_min(Lease(refresh=1.0, period=2.0), "covering", DELAYS)
    check(Lease(refresh=1.0, period=least + 0.001), "covering", DELAYS)
    with pytest.raises(
        LeaseError, match=r"`period` is 1.04 s; more than 1.04 s is wanted \(refresh 1 \+ \(0.05 - 0.01\)"
    ):
        check(Lease(refresh=1.0, period=least), "covering", DELAYS)


# In scenarios -------------------------------------------------------------------------------------------------

SCENARIO = """
name = "x"
routing = "covering"
links = [["a", "b"], ["b", "c"], ["b", "d"]]
duration = 9.0
{more}
[latency]
default = [0.1, 0.2]
"a-b" = [0.05, 0.3]
[stabilise]
kind = "leases"
refresh = 1.0
{stabilise}
"""


def scenario(stabilise: str = "period = 2.0", more: str = ""):
    return parse_scenario(SCENARIO.format(stabilise=stabilise, more=more), file="x.toml")


def test_delays_and_diameter_follow_from_the_network():
    assert delays_of(scenario()) == Delays(0.05, 0.3, 3), "two links between brokers, and a client's"
    assert stabilisation_of(scenario()) == pytest.approx(2 * 2.0 + 3 * 0.3)


def test_delays_and_diameter_can_be_given():
    given = scenario("period = 2.0\ndelay = [0.0, 0.5]\ndiameter = 10")
    assert delays_of(given) == Delays(0.0, 0.5, 10)


@pytest.mark.parametrize(
    ("stabilise", "more", "line", "says"),
    [
        ("period = 1.2", "", 13, r"`period` is 1.2 s; more than 1.25 s is wanted \(refresh 1 \+ \(0.3 - 0.05\)\)"),
        ("period = 1.8\nrenewal = 'relayed'", "", 13, r"more than 1.9 s is wanted \(refresh 1 \+ 3 links × 0.3\)"),
        ("period = 2.0\nrenewal = 'relaid'", "", 14, "did you mean `relayed`"),
        ("period = 2.0\nvariant = 3", "", 14, "a whole number from 1 to 2"),
        ("", "", 10, "`period` is missing in `stabilise`"),
        ("period = 2.0\nrenewal = 'relayed'", "advertisements = true", 14, "advertisements are not renewed that way"),
        (
            "period = 2.0\nrenewal = 'relayed'",
            "steps = [{ at = 1.0, do = 'swap', brokers = ['a', 'b', 'c'] }]",
            14,
            "relayed renewals need a tree that stays",
        ),
    ],
)
def test_what_does_not_fit_is_refused(stabilise, more, line, says):
    with pytest.raises(ScenarioError, match=says) as error:
        scenario(stabilise, more)
    assert error.value.line == line
