"""The planner on Spark: flows as counted by hand, the same trees wherever they are searched, and what is refused."""

from pathlib import Path

import pytest

from pleach.core.optimise.search import Problem
from pleach.core.overlay.plans import Topology
from pleach.errors import TraceError
from pleach.scenario import load_scenario
from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind
from pleach.trace.store import write_trace
from support.optimise.zoned_scenario import flows_by_hand, homes_of, prices, scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
STARTS = 6


def recorded(lake, about_of, scenario, *, kinds=None):
    run = run_scenario(scenario, 1, kinds=kinds)
    write_trace(run.records, lake, run.records[0].run, about=about_of(scenario))
    return run


def with_outline(scenario):
    return {OUTLINE: initial_tree(scenario)}


def without(_scenario):
    return {}


@pytest.mark.spark
def test_from_a_lake_to_a_plan(spark, tmp_path):
    from pleach.spark.planner.job import PlannerOptions, SearchTask, planned, searched, traffic_of  # noqa: PLC0415  # noqa: PLC0415

    run = recorded(tmp_path, with_outline, scenario(), kinds=frozenset(RecordKind) - {RecordKind.SEND})
    traffic = traffic_of(spark, tmp_path)
    assert traffic.flows == flows_by_hand(run.records, homes_of(run.scenario))
    assert traffic.tree == Topology.of(run.scenario.links)

    steps = []
    wish = PlannerOptions(degree_max=3, starts=STARTS)
    found = planned(spark, traffic, prices(), wish, lambda name, share: steps.append((name, share)))
    task = SearchTask(Problem(traffic.flows, prices().costs(traffic.tree.brokers), 3), traffic.tree, wish.seed)
    assert found.ends == tuple(searched(task, number) for number in range(STARTS))
    assert found.order.rank_then == min(end.found.rank for end in found.ends)
    assert found.yardstick <= found.order.rank_then.cost < found.order.rank.cost
    assert steps[-1] == ("searching", 1.0)


@pytest.mark.spark
def test_clients_that_move_are_found_by_their_own_records(spark, tmp_path):
    """Without an outline, what clients send tells where they begin."""
    from pleach.spark.planner.job import traffic_of  # noqa: PLC0415

    run = recorded(tmp_path, without, load_scenario(EXAMPLES / "moves.toml"))
    tree = Topology.of(run.scenario.links)
    assert traffic_of(spark, tmp_path, tree=tree).flows == flows_by_hand(run.records, homes_of(run.scenario))
    with pytest.raises(TraceError, match="the tree of the runs is unknown"):
        traffic_of(spark, tmp_path)


@pytest.mark.spark
def test_what_cannot_be_planned_is_refused(spark, tmp_path):
    from pleach.spark.planner.job import traffic_of  # noqa: PLC0415

    quiet = frozenset(RecordKind) - {RecordKind.SEND}
    recorded(tmp_path, without, scenario(name="strangers"), kinds=quiet)
    tree = Topology.of(scenario().links)
    with pytest.raises(TraceError, match=r"the broker of these clients is unknown: client-a1 \(run strangers-1\)"):
        traffic_of(spark, tmp_path, tree=tree)
    with pytest.raises(TraceError, match="no finished run 'other'"):
        traffic_of(spark, tmp_path, ["other"])
    recorded(tmp_path, with_outline, scenario(name="one"), kinds=quiet)
    recorded(tmp_path, with_outline, load_scenario(EXAMPLES / "swap.toml"), kinds=quiet)
    with pytest.raises(TraceError, match="ended with another tree than"):
        traffic_of(spark, tmp_path)
    with pytest.raises(TraceError, match="broker 'a1', which is not in the tree"):
        traffic_of(spark, tmp_path, ["one-1"], Topology.of([("b1", "b2")]))
