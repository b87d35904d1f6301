"""A broker joins just where a swap is asked for that would link it: the swap is refused, and the new link stays."""

import pytest

from pleach.scenario.load import parse_scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.contract.judgement import disagreements

SCENARIO = """
name = "joined meanwhile"
routing = "simple"
exchange = "{exchange}"
links = [["a", "b"], ["b", "c"]]
duration = 2.0
latency = {{ default = 0.01 }}

[[clients]]
id = "s"
broker = "c"
subscribe = ["x = 1"]

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.05, attributes = {{ x = 1 }} }}

[[steps]]
at = 0.5
do = "add_broker"
broker = "n"
to = "a"

[[steps]]
at = 0.505
do = "swap"
brokers = ["a", "b", "n"]

[[steps]]
at = 1.0
do = "subscribe"
client = "p"
filter = "x = 2"
"""


@pytest.mark.parametrize("exchange", ["swaplink", "advanced-coordinated"])
def test_a_refused_swap_does_not_take_down_the_link_of_a_broker_that_joined_meanwhile(exchange):
    """The subscription of the end has to reach n over the link that the swap had asked for, too."""
    found = []
    run = ScenarioRun(
        parse_scenario(SCENARIO.format(exchange=exchange), "test"), 1, watch=lambda b: found.extend(disagreements(b))
    )
    result = run.finish()
    assert [refusal.reason for refusal in result.refusals] == ["b and n are not linked"]
    assert "n" in run.brokers["a"].router.neighbours
    assert len(run.brokers["n"].router.received_from(0, "a")) == 2
    assert result.quiet
    assert not found
    assert judge(result.records).clean
