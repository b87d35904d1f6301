"""The tree at the end of a run, from its trace: as the brokers have it."""

from pathlib import Path

import pytest

from pleach.core.overlay.plans import Topology
from pleach.scenario import load_scenario
from pleach.scenario.initial_tree import initial_tree, read_initial_tree, tree_after
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["swap", "exchanges", "reweave", "churn", "moves"])
def test_operations_that_are_done_change_the_tree(name):
    scenario = load_scenario(EXAMPLES / f"{name}.toml")
    trees = []
    run = run_scenario(
        scenario,
        1,
        kinds=frozenset({RecordKind.STATE}),
        watch=lambda brokers: trees.append(
            Topology.of(((a, b) for a in brokers for b in brokers[a].router.neighbours if a < b), brokers)
        ),
    )
    begun = read_initial_tree(initial_tree(scenario))
    assert tree_after(begun, [(record.node, record.detail) for record in run.records]) == trees[-1]


def test_what_was_refused_or_never_ended_changes_nothing():
    begun = read_initial_tree('{"brokers": ["a", "b", "c"], "links": [["a", "b"], ["b", "c"]], "homes": {}}')
    notes = [
        ("a", "operation 1: swap a b c"),
        ("a", "operation 1: busy"),
        ("a", "operation 2: swap a b c"),
        ("a", "swap 2: flooding"),
    ]
    assert tree_after(begun, notes).links == (("a", "b"), ("b", "c"))
    assert tree_after(begun, [*notes, ("a", "operation 2: done")]).links == (("a", "c"), ("b", "c"))
