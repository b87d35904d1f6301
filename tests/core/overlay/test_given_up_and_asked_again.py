"""A swap is given up while events that were flooded for it are under way, and the same three swap again at once.

What is late of the first swap comes over the link that the second one has opened again: it has come another way, too.
"""

from __future__ import annotations

import pytest

from pleach.scenario.load import parse_scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.overlay.judgement import judge_changing_tree, replay

SCENARIO = """
name = "given up and asked again"
routing = "simple"
ordering = "{ordering}"
links = [["a", "b"], ["b", "c"]]
duration = 14.0

[latency]
default = 0.001
"a-c" = {straight}

[[clients]]
id = "s"
broker = "a"
subscribe = ["x = 1"]

[[clients]]
id = "p"
broker = "c"
publish = {{ every = 0.01, until = 13.0, attributes = {{ x = 1 }} }}

[[steps]]
at = 0.5
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 0.5005
do = "crash"
broker = "a"

[[steps]]
at = 11.0
do = "restart"
broker = "a"

[[steps]]
at = 11.001
do = "swap"
brokers = ["{first}", "b", "{last}"]
"""


@pytest.mark.parametrize("ordering", ["none", "fifo", "causal"])
@pytest.mark.parametrize("straight", [0.001, 0.005, 0.05, 0.5])
@pytest.mark.parametrize(("first", "last"), ["ac", "ca"])
def test_nothing_that_was_flooded_for_a_swap_that_was_given_up_comes_twice(ordering, straight, first, last):
    text = SCENARIO.format(ordering=ordering, straight=straight, first=first, last=last)
    run = ScenarioRun(parse_scenario(text, "test"), 1)
    result = run.finish()
    verdict = judge(result.records)
    assert [refusal.reason for refusal in result.refusals] == ["a was silent for 10 s, and b gave up"]
    assert "c" in run.brokers["a"].router.neighbours
    assert verdict.counts.deliveries > 1_000
    assert verdict.clean, verdict.violations[:3]


def test_a_seed_that_once_had_a_duplicate():
    judgement = judge_changing_tree(253_398)
    assert not judgement.flaws, replay(judgement)
