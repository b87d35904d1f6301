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
    check_plan,
    planned_exchange,
    planned_transformation,
    recommended,
    why_not,
)
from pleach.core.overlay.plans import ExchangeStep, Plan, SwapStep, Topology, remove_broker, transform
from pleach.core.overlay.registry import CYCLES, SWAPS
from pleach.errors import PlanError
from support.overlay.labelled_trees import check_plan as check_steps
from support.overlay.labelled_trees import names_of, random_tree

CHAIN = Topology.of([(f"b{i}", f"b{i + 1}") for i in range(9)])
STAR = Topology.of([("b0", f"b{i}") for i in range(1, 10)])
HEALING = Circumstances("fifo", heals=True)
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


@pytest.mark.parametrize("ordering", ["fifo", "causal"])
@pytest.mark.parametrize("brokers", range(3, 13))
def test_where_brokers_die_and_are_replaced_no_cycle_is_locked(brokers, ordering):
    chosen = recommended(brokers, Circumstances(ordering, heals=True))
    assert chosen.protocol == BY_SWAPS
    assert ("a cycle would stay locked" in chosen.reason) == (brokers > 3)


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


# A protocol that is named where brokers are replaced ------------------------------------------------------------------


@pytest.mark.parametrize("protocol", CHOICES)
def test_those_for_cycles_do_not_fit_and_all_others_do(protocol):
    assert bool(why_not(protocol, HEALING)) == (protocol in CYCLES)
    assert not why_not(protocol, Circumstances("fifo"))


@pytest.mark.parametrize("protocol", CYCLES)
def test_they_are_refused_with_what_to_take_instead(protocol):
    said = f"cycle of {protocol} locked for good.*take swaplink, or leave it to auto"
    for plan in (Plan.of(CHAIN, [SwapStep("b0", "b1", "b2", protocol)]), transform(CHAIN, STAR, protocol=protocol)):
        check_plan(plan, Circumstances("fifo"))
        with pytest.raises(PlanError, match=said):
            check_plan(plan, HEALING)
    with pytest.raises(PlanError, match=said):
        planned_exchange(CHAIN, remove=("b0", "b1"), add=("b0", "b5"), protocol=protocol, circumstances=HEALING)
    with pytest.raises(PlanError, match=said):
        planned_transformation(CHAIN, STAR, protocol=protocol, circumstances=HEALING)


def test_a_plan_that_names_none_fits():
    check_plan(remove_broker(CHAIN, "b4"), HEALING)


# Any tree into any other, by `auto` -----------------------------------------------------------------------------------


def pairs_of_trees():
    random = Random("auto")
    for _ in range(PAIRS):
        names = names_of(random.randint(3, 9))
        yield random_tree(random, names), random_tree(random, random.sample(names, random.randint(2, len(names))))


@pytest.mark.parametrize("circumstances", [Circumstances("fifo"), Circumstances("causal"), HEALING])
def test_each_link_is_exchanged_as_is_recommended_for_it(circumstances):
    kinds = set()
    for start, target in pairs_of_trees():
        plan = planned_transformation(start, target, protocol=AUTO, circumstances=circumstances)
        check_steps(plan)
        assert (plan.start, plan.result) == (start, target)
        for step, touched in zip(plan.steps, plan.touched, strict=True):
            kinds.add(type(step))
            if isinstance(step, ExchangeStep):
                assert step.protocol == AT_ONCE == recommended(len(touched), circumstances).protocol
            elif isinstance(step, SwapStep):
                assert step.protocol == BY_SWAPS
    assert (ExchangeStep in kinds) == (not circumstances.heals)
    assert SwapStep in kinds


def test_swaps_alone_are_as_few_as_without_auto():
    for start, target in pairs_of_trees():
        plan = planned_transformation(start, target, protocol=AUTO, circumstances=HEALING)
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
    plan = planned_transformation(CHAIN, STAR, protocol="", circumstances=HEALING)
    assert plan.steps == transform(CHAIN, STAR).steps
