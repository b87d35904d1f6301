"""S1 §5.5: evaluation and consensus by hand, on three and four brokers."""

from itertools import combinations

import pytest

from pleach.core.optimise.heuristics import indirect_costs
from pleach.core.optimise.ledger import opened
from support.optimise.heuristics import HEURISTICS, decided, removal_costs
from support.optimise.priced_networks import EXAMPLE, EXAMPLE_FLOWS


class Everything:
    """A view of somebody who knows all flows."""

    def __init__(self, costs, flows):
        self._costs, self._flows = costs, flows

    def common(self, *brokers):
        return sum(flow.events for flow in self._flows if flow.members >= set(brokers))

    def processing(self, broker):
        return self._costs.processing[broker]

    def communication(self, a, b):
        return self._costs.of_link(a, b)


VIEW = Everything(EXAMPLE, EXAMPLE_FLOWS)


def agreed(name, path, view=VIEW):
    heuristic = HEURISTICS[name]
    answers = [heuristic.removal_costs(me, path, view) for me in path]
    return decided(path, [sum(column) for column in zip(*answers, strict=True)])


def test_the_basic_case_of_5_10():
    """From B2 to B3 over B1: I(2,3) = 10, of which B1 has 5; c = (10 - 5)/10 · (3 + 5) + 1."""
    assert indirect_costs(["B2", "B1", "B3"], VIEW) == [3.0, 0.5 * (3 + 5) + 1]


def test_the_general_case_of_5_11_builds_on_the_shorter_path():
    line = ["a", "b", "c", "d"]
    view = Everything(_costs(line), [])
    costs = indirect_costs(line, view)
    assert costs == [1.0, 1.0 + 2.0 + 1.0, 1.0 + 2.0 + 1.0 + 2.0 + 1.0]  # nothing in common: everything is paid for


def _costs(brokers):
    return type(EXAMPLE)(dict.fromkeys(brokers, 2.0), dict.fromkeys(combinations(brokers, 2), 1.0))


def test_a_link_is_promising_if_it_costs_less_than_the_way_round():
    assert HEURISTICS["ci"].is_promising(["B2", "B1", "B3"], VIEW)  # 4 < 5
    assert not HEURISTICS["ci"].is_promising(["B2", "B3", "B1"], VIEW)  # 3 > 1/6·(4 + 2) + 1
    assert not HEURISTICS["lmst"].is_promising(["B2", "B1", "B3"], VIEW)


def test_without_common_traffic_nobody_asks():
    silent = Everything(EXAMPLE, [])
    assert not HEURISTICS["ci"].is_promising(["B2", "B1", "B3"], silent)
    assert not HEURISTICS["lmit"].is_promising(["B2", "B1", "B3"], silent)


def test_the_line_that_is_left_begins_behind_the_link_that_went():
    assert opened("abcd", 0) == ("b", "c", "d", "a")
    assert opened("abcd", 3) == ("a", "b", "c", "d")  # without the new link: the path itself


def test_5_12_adds_up_both_directions():
    """B1 on the path B2, B1, B3: 6 events with B2, 5 with B3, each a neighbour."""
    assert removal_costs("B1", ["B2", "B1", "B3"], VIEW)[-1] == 6 * 3 + 5 * 1


def test_the_tree_of_figure_5_2_b_is_left_by_ci_and_mit_but_not_by_mst():
    """From {12, 13}: the best tree is {13, 23} (5.7)."""
    assert agreed("ci", ["B2", "B1", "B3"])[:2] == (("B1", "B2"), ("B2", "B3"))
    assert agreed("lmit", ["B2", "B1", "B3"])[:2] == (("B1", "B3"), ("B2", "B3"))
    assert agreed("lmst", ["B2", "B1", "B3"]) is None


def test_in_the_best_tree_b1_still_hopes_and_the_others_refuse():
    """3 < 1/6·(1 + 2) + 4 for B1, but not for all brokers of the cycle together."""
    assert HEURISTICS["ci"].is_promising(["B1", "B3", "B2"], VIEW)
    assert agreed("ci", ["B1", "B3", "B2"]) is None


@pytest.mark.parametrize("name", sorted(HEURISTICS))
def test_nobody_changes_anything_for_nothing(name):
    """All links alike and no traffic: what is there stays."""
    path = ["a", "b", "c", "d"]
    assert agreed(name, path, Everything(_costs(path), [])) is None
