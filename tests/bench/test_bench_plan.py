"""The bench of the planner's search: what it says of the times, and that it sees a start that ends elsewhere."""

import pytest

from pleach.bench import BENCHES, plan
from pleach.core.optimise.search import searched

EFFORT = plan.PlanSize(brokers=12, starts=5, rounds=2)
SECONDS = {1: 12.0, 2: 8.0}


def here(task, starts, cores):
    """In this process; the times are made up."""
    return plan.Timed(SECONDS[cores], [searched(task, number) for number in range(starts)])


def test_times_and_their_ratio_are_told():
    one, two = plan.measure(EFFORT, 1, here)
    assert (one.value, one.ratio, one.bar, one.ok) == (12.0, 1.0, None, True)
    assert (two.value, two.ratio, two.against) == (8.0, 1.5, "1 core")
    assert two.ok is (two.ratio >= plan.BAR)
    assert (one.case, two.case) == ("5 starts, 12 brokers, 1 core", "5 starts, 12 brokers, 2 cores")


def test_a_start_that_ends_elsewhere_fails_the_bench():
    def astray(task, starts, cores):
        found = here(task, starts, cores)
        return found if cores == 1 else found._replace(ends=found.ends[::-1])

    with pytest.raises(AssertionError, match="depends on where it runs"):
        list(plan.measure(EFFORT, 1, astray))


def test_it_is_registered_and_large_enough():
    assert BENCHES["plan"] is plan.run
    assert plan.USUAL.starts >= 64
    assert plan.USUAL.brokers >= 60
    assert plan.network(3, 30) == plan.network(3, 30) != plan.network(4, 30)
