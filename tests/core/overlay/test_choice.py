"""`auto`: which protocol is recommended when, and that it makes the plan that it recommends."""

from itertools import takewhile
from random import Random

import pytest

from pleach.core.overlay.choice import (
    AT_ONCE,
    AUTO,
    BY_SWAPS,
    CHOICES,
    Circumstances,
    planned_exchange,
    planned_transformation,
    recommended,
)
from pleach.core.overlay.plans import ExchangeStep, SwapStep, Topology, transform
from pleach.core.overlay.registry import CYCLES, SWAPS
from pleach.errors import PlanError
from support.overlay.labelled_trees import check_plan, names_of, random_tree

CHAIN = Topology.of([(f"b{i}", f"b{i + 1}") for i in range(9)])
STAR = Topology.of([("b0", f"b{i}") for i in range(1, 10)])
HIERARCHICAL = Circumstances("fifo", is_hierarchical=True)
PAIRS = 40  # of trees


@pytest.mark.parametrize(
    ("brokers", "ordering", "is_hierarchical", "protocol", "says"),
    [
        (3, "none", False, BY_SWAPS, "one swap"),
        (3, "causal", False, BY_SWAPS, "one swap"),
        (4, "causal", False, AT_ONCE, "quicker than 2 swaps"),
        (5, "causal", False, AT_ONCE, "hardly longer"),
        (6, "causal", False, BY_SWAPS, "events wait for a whole cycle of 6"),
        (12, "causal", False, BY_SWAPS, "swaps delay hardly any"),
        (12, "fifo", False, AT_ONCE, "with fifo order few events wait"),
        (4, "none", False, AT_ONCE, "quicker than 2 swaps"),
        (4, "none", True, BY_SWAPS, "hierarchical"),
        (12, "causal", True, BY_SWAPS, "hierarchical"),
    ],
)
def test_the_rule(brokers, ordering, is_hierarchical, protocol, says):
    chosen = recommended(brokers, Circumstances(ordering, is_hierarchical))
    assert chosen.protocol == protocol
    assert says in chosen.reason


@pytest.mark.parametrize("last", range(2, 10))
@pytest.mark.parametrize("ordering", ["none", "fifo", "causal"])
def test_auto_plans_what_is_recommended(last, ordering):
    circumstances = Circumstances(ordering)
    plan = planned_exchange(
        CHAIN, remove=("b0", "b1"), add=("b0", f"b{last}"), protocol=AUTO, circumstances=circumstances
    )
    chosen = recommended(last + 1, circumstances).protocol
    kind, count = (SwapStep, last - 1) if chosen == BY_SWAPS else (ExchangeStep, 1)
    assert len(plan.steps) == count
    assert all(isinstance(step, kind) and step.protocol == chosen for step in plan.steps)


def test_what_leaves_no_tree_is_refused_before_anything_is_chosen():
    with pytest.raises(PlanError, match="joined without b0–b1"):
        planned_exchange(
            CHAIN, remove=("b0", "b1"), add=("b2", "b5"), protocol=AUTO, circumstances=Circumstances("causal")
        )


def test_every_protocol_can_be_named():
    assert set(CHOICES) == {*SWAPS, *CYCLES, AUTO}


# Any tree into any other, by `auto` -----------------------------------------------------------------------------------


def pairs_of_trees():
    random = Random("auto")
    for _ in range(PAIRS):
        names = names_of(random.randint(3, 9))
        yield random_tree(random, names), random_tree(random, random.sample(names, random.randint(2, len(names))))


@pytest.mark.parametrize("circumstances", [Circumstances("fifo"), Circumstances("causal"), HIERARCHICAL])
def test_each_link_is_exchanged_as_is_recommended_for_it(circumstances):
    kinds = set()
    for start, target in pairs_of_trees():
        plan = planned_transformation(start, target, protocol=AUTO, circumstances=circumstances)
        check_plan(plan)
        assert (plan.start, plan.result) == (start, target)
        for step, touched in zip(plan.steps, plan.touched, strict=True):
            kinds.add(type(step))
            if isinstance(step, ExchangeStep):
                assert step.protocol == AT_ONCE == recommended(len(touched), circumstances).protocol
            elif isinstance(step, SwapStep):
                assert step.protocol == BY_SWAPS
    assert (ExchangeStep in kinds) == (not circumstances.is_hierarchical)
    assert SwapStep in kinds


def test_swaps_alone_are_as_few_as_without_auto():
    for start, target in pairs_of_trees():
        plan = planned_transformation(start, target, protocol=AUTO, circumstances=HIERARCHICAL)
        assert plan.steps == transform(start, target, protocol=BY_SWAPS).steps


def test_a_long_cycle_goes_by_swaps_beside_a_short_one_at_once():
    """b0–b1 for b0–b9 lies on a cycle of ten; c0–c1 for c0–c3 on one of four."""
    tail = [("b0", "c0"), ("c0", "c1"), ("c1", "c2"), ("c2", "c3")]
    start = Topology.of([*CHAIN.links, *tail])
    target = Topology.of([*CHAIN.links[1:], ("b0", "b9"), tail[0], *tail[2:], ("c0", "c3")])
    plan = planned_transformation(start, target, protocol=AUTO, circumstances=Circumstances("causal"))
    first = list(takewhile(lambda step: isinstance(step, ExchangeStep), plan.steps))
    assert first == [ExchangeStep(("c0", "c1"), ("c0", "c3"), AT_ONCE)]
    assert [step.protocol for step in plan.steps[1:]] == [BY_SWAPS] * 8
    assert plan.result == target


def test_without_a_protocol_it_is_swaps_by_that_of_the_network():
    plan = planned_transformation(CHAIN, STAR, protocol="", circumstances=HIERARCHICAL)
    assert plan.steps == transform(CHAIN, STAR).steps
