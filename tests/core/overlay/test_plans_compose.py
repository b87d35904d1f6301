"""Plans for single changes: the counts of S0 (§IV, §V property 2) and what is refused."""

from itertools import combinations
from random import Random

import pytest

from pleach.core.overlay.plans import (
    AddStep,
    RemoveStep,
    SwapStep,
    Topology,
    add_broker,
    describe,
    exchange,
    insert_broker,
    remove_broker,
)
from pleach.errors import PlanError, StepError, TopologyError
from support.overlay.labelled_trees import all_trees, check_plan, names_of, pair, random_tree
from support.thorough import FACTOR

CHAIN = Topology.of([("a", "b"), ("b", "c"), ("c", "d")])
STAR = Topology.of([("hub", "x"), ("hub", "y"), ("hub", "z"), ("y", "y1"), ("x", "x1"), ("x", "x2")])


def side(tree, start, without):
    """The brokers that can be reached from `start` without the link."""
    found, ahead = {start}, [start]
    while ahead:
        here = ahead.pop()
        for there in tree.neighbours(here):
            if there not in found and pair(here, there) != without:
                found.add(there)
                ahead.append(there)
    return found


def check_every_exchange(tree):
    """All pairs of a link and two brokers: n−2 swaps on a cycle of n, or refused, as a search for both sides says."""
    for removed in tree.links:
        x_side = side(tree, removed[0], removed)
        for u, v in combinations(tree.brokers, 2):
            if ((u in x_side) == (v in x_side)) or tree.has_link(u, v):
                with pytest.raises(PlanError):
                    exchange(tree, remove=removed, add=(u, v))
                continue
            plan = exchange(tree, remove=removed, add=(v, u))
            check_plan(plan)
            assert set(plan.result.links) == {*tree.links} - {removed} | {(u, v)}
            assert plan.swaps == len(plan.steps) == len(tree.path(u, v)) - 2


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_exchange_of_every_small_tree(size):
    for links in all_trees(names_of(size)):
        check_every_exchange(Topology.of(links))


def test_every_exchange_of_random_trees():
    for seed in range(3 * FACTOR):
        check_every_exchange(random_tree(Random(seed), names_of(12)))


@pytest.mark.parametrize(
    ("remove", "add", "reason"),
    [
        (("a", "c"), ("a", "d"), "there is no link a–c to remove; links of a: a–b"),
        (("a", "b"), ("c", "c"), "link c–c would join a broker to itself"),
        (("a", "b"), ("c", "b"), "link c–b is there already"),
        (("a", "b"), ("a", "b"), "link a–b is there already"),
        (("a", "b"), ("b", "d"), "b and d are joined without a–b, by b–c–d; remove a link of these instead"),
    ],
)
def test_an_exchange_that_would_leave_no_tree_is_refused(remove, add, reason):
    with pytest.raises(PlanError, match=reason):
        exchange(CHAIN, remove=remove, add=add)


@pytest.mark.parametrize(("remove", "add"), [(("x", "a"), ("a", "d")), (("a", "b"), ("a", "x"))])
def test_an_exchange_with_unknown_brokers_is_refused(remove, add):
    with pytest.raises(TopologyError, match="'x' is not a broker of this tree"):
        exchange(CHAIN, remove=remove, add=add)


def test_removing_any_broker_of_random_trees():
    for seed in range(10 * FACTOR):
        random = Random(seed)
        tree = random_tree(random, names_of(random.randint(2, 40)))
        for broker in tree.brokers:
            plan = remove_broker(tree, broker)
            check_plan(plan)
            assert plan.swaps == len(tree.neighbours(broker)) - 1
            assert set(plan.result.brokers) == {*tree.brokers} - {broker}
            untouched = {link for link in tree.links if broker not in link}
            assert untouched <= set(plan.result.links)


def test_the_neighbour_with_the_fewest_links_gets_the_others():
    plan = remove_broker(STAR, "hub")
    assert plan.steps == (SwapStep("x", "hub", "z"), SwapStep("y", "hub", "z"), RemoveStep("hub"))
    degrees = {to: len(remove_broker(STAR, "hub", to=to).result.neighbours(to)) for to in STAR.neighbours("hub")}
    assert degrees == {"x": 4, "y": 3, "z": 2}


def test_who_gets_the_others_may_be_said():
    plan = remove_broker(STAR, "hub", to="x")
    assert plan.result == Topology.of([("x", "y"), ("x", "z"), ("y", "y1"), ("x", "x1"), ("x", "x2")])
    with pytest.raises(PlanError, match="y1 is not a neighbour of hub; choose one of x, y, z"):
        remove_broker(STAR, "hub", to="y1")


def test_the_last_broker_and_unknown_ones_are_not_removed():
    with pytest.raises(PlanError, match="a is the last broker"):
        remove_broker(Topology.of([], ["a"]), "a")
    with pytest.raises(TopologyError, match="'x' is not a broker"):
        remove_broker(CHAIN, "x")


def test_a_broker_is_added_as_a_leaf():
    plan = add_broker(CHAIN, "x", to="b")
    assert plan.steps == (AddStep("x", "b"),)
    assert plan.result == Topology.of([*CHAIN.links, ("b", "x")])
    with pytest.raises(StepError, match="b is in the tree already"):
        add_broker(CHAIN, "b", to="a")
    with pytest.raises(StepError, match="y is not in the tree"):
        add_broker(CHAIN, "x", to="y")


def test_a_broker_is_put_into_any_link():
    for a, b in CHAIN.links:
        for into in ((a, b), (b, a)):
            plan = insert_broker(CHAIN, "x", into=into)
            check_plan(plan)
            assert set(plan.result.links) == {*CHAIN.links} - {(a, b)} | {(a, "x"), (b, "x")}
            assert plan.swaps == 1
    with pytest.raises(PlanError, match="there is no link a–c to put x into; links of a: a–b"):
        insert_broker(CHAIN, "x", into=("a", "c"))


def test_a_plan_reads_like_this():
    assert describe(remove_broker(STAR, "hub")) == [
        "2 swaps, 1 broker removed, in 3 waves; the tree has 6 brokers then",
        "wave 1",
        "  1  swap x, hub, z  link x–hub becomes x–z; touches x, hub, z",
        "wave 2",
        "  2  swap y, hub, z  link y–hub becomes y–z; touches y, hub, z; after 1",
        "wave 3",
        "  3  remove hub      link hub–z goes, clients of hub go to z; touches hub, z; after 2",
    ]
    assert describe(insert_broker(CHAIN, "new", into=("a", "b")))[:3] == [
        "1 swap, 1 broker added, in 2 waves; the tree has 5 brokers then",
        "wave 1",
        "  1  add new at a    new link new–a; touches new, a",
    ]
