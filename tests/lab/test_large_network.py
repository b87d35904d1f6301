"""The large network in small: what it counts is what it says, and its judge has two sides."""

from collections import defaultdict
from types import MappingProxyType

import pytest

from pleach.core.optimise.improvement import DEGREE_MAX
from pleach.core.overlay.plans import Topology
from pleach.lab.beyond import large_network as large
from pleach.lab.beyond.large_network_table import judge_table, write_table
from pleach.lab.findings import Status
from pleach.trace import Rule
from support.lab.made_up_summaries import summary

BROKERS = 12


@pytest.fixture(scope="module", params=[large.RING_KEPT, large.IMPROVED])
def tree(request):
    return request.param


@pytest.fixture(scope="module")
def found(tree):
    samples = defaultdict(list)
    for metric, value in large.measure({"brokers": BROKERS, "tree": tree}, 0):
        samples[metric].append(value)
    return samples


def test_all_join_one_is_lost_and_nothing_goes_wrong(found, tree):
    assert len(found[large.JOIN]) == BROKERS - large.FOUNDERS
    assert found[large.NOT_JOINED] == found[large.RESTLESS] == found[large.UNCONFIRMED] == [0.0]
    assert found[large.DESTROYED] == [1.0]
    assert len(found[large.DEGREE]) == len(found[large.DEGREE_AFTER]) == BROKERS
    assert max(found[large.DEGREE]) <= (3 if tree == large.RING_KEPT else DEGREE_MAX)
    assert [found[rule] for rule in Rule] == [[0.0]] * len(Rule)
    assert found[large.DELIVERED][0] > found[large.PUBLISHED][0] > 0


def test_upkeep_and_look_ups_are_counted(found):
    assert len(found[large.HOPS]) == large.LOOKUPS
    assert found[large.WRONG_OWNER] == [0.0]
    assert all(found[metric][0] > 0 for metric in (large.LINKS, large.MEMBERS, large.DATAGRAMS))


def test_a_tree_is_measured_from_its_middle():
    chain = Topology.of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("c", "x")])
    depths, diameter = large.measured(chain)
    assert sorted(depths) == [0, 1, 1, 1, 2, 2]
    assert diameter == 4


def made_up(values):
    """One sample of each metric of a case."""
    usual = dict.fromkeys((*Rule, large.NOT_JOINED, large.RESTLESS, large.WRONG_OWNER), 0.0)
    names = [
        *(large.DEGREE_WHILE, large.DEGREE, large.DEGREE_AFTER, large.DIAMETER, large.HOPS, large.JOIN),
        *(large.LINKS, large.MEMBERS, large.DATAGRAMS, large.EXCHANGES, large.DESTROYED, large.MOVED),
        *(large.DELIVERED, large.VIRTUAL),
    ]
    return {**usual, **dict.fromkeys(names, 3.0), **values}


def summaries(values=MappingProxyType({})):
    case = {"brokers": 100, "tree": large.RING_KEPT}
    return [summary(case, str(metric), mean) for metric, mean in made_up(values).items()]


def test_the_table_has_a_row_for_each_case():
    assert "| 100 | ring | 3, 3, 3 | 3 |" in write_table(summaries())


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({large.DEGREE: 4.0}, "at most three neighbours"),
        ({large.DEGREE_AFTER: 4.0}, "at most three neighbours"),
        ({Rule.LOST: 1.0}, "nothing lost"),
        ({large.NOT_JOINED: 1.0}, "all brokers join"),
        ({large.HOPS: 6.0}, "logarithm"),
    ],
)
def test_the_judge_says_what_is_not_met(values, name):
    assert judge_table(summaries()).status is Status.MET
    finding = judge_table(summaries(values))
    assert finding.status is Status.NOT_MET
    assert name in "; ".join(finding.names)
