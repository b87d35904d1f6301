"""What links cost by measured distances: noise is taken out, and where nobody answers no link is wanted."""

import pytest

from pleach.core.optimise.distances import KEPT, MILLISECONDS_MIN, UNREACHABLE_FACTOR, Distances
from pleach.core.overlay.plans import Topology

TREE = Topology.of([("a1", "a2"), ("a2", "b1"), ("b1", "b2")])
ZONES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
MEASURED = {
    ("a1", "a2"): 0.002,
    ("b1", "b2"): 0.004,
    ("a1", "b1"): 0.080,
    ("a1", "b2"): 0.100,
    ("a2", "b1"): 0.090,
    ("a2", "b2"): 0.200,
}


def made(*rounds):
    found = Distances()
    for each in rounds:
        found.measured(each)
    return found


def test_links_between_the_same_zones_cost_the_same():
    costs = made(MEASURED).costs(TREE, ZONES)
    far = [costs.of_link(a, b) for a in ("a1", "a2") for b in ("b1", "b2")]
    assert far == pytest.approx([47.5] * 4)
    assert costs.of_link("a1", "a2") == pytest.approx(1.0)


def test_without_zones_each_link_costs_what_was_measured():
    costs = made(MEASURED).costs(TREE, {"a1": "a"})
    assert costs.of_link("a2", "b2") == pytest.approx(100.0)
    assert costs.of_link("a1", "b1") == pytest.approx(40.0)


def test_the_shortest_of_the_last_rounds_counts_and_is_forgotten_in_time():
    link = ("a1", "b1")
    found = made({**MEASURED, link: 0.080}, {**MEASURED, link: 0.300})
    assert found.costs(TREE, {}).of_link(*link) == pytest.approx(40.0)
    for _ in range(KEPT - 1):
        found.measured({**MEASURED, link: 0.300})
    assert found.costs(TREE, {}).of_link(*link) == pytest.approx(150.0)


def test_where_nobody_answers_no_link_is_wanted_but_one_that_is_there_stays_usable():
    reached = {link: seconds for link, seconds in MEASURED.items() if link not in {("a1", "b2"), ("a2", "b1")}}
    costs = made(reached).costs(TREE, ZONES)
    assert costs.of_link("a1", "b2") == pytest.approx(UNREACHABLE_FACTOR * 100.0)
    assert costs.of_link("a2", "b1") == pytest.approx(100.0)
    assert Distances().costs(TREE, ZONES).of_link("a1", "a2") == MILLISECONDS_MIN
