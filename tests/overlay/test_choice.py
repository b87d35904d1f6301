"""`auto`: which protocol is recommended when, and that it makes the plan that it recommends."""

import pytest

from pleach.errors import PlanError
from pleach.overlay.choice import AT_ONCE, AUTO, BY_SWAPS, CHOICES, Circumstances, planned_exchange, recommended
from pleach.overlay.plans import ExchangeStep, SwapStep, Topology
from pleach.overlay.registry import CYCLES, SWAPS

CHAIN = Topology.of([(f"b{i}", f"b{i + 1}") for i in range(9)])


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
