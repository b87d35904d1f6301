"""Stand-ins that die as well: the next one has to know no less, and to wait for nobody who has had his say."""

from __future__ import annotations

import pytest

from pleach.scenario.load import parse_scenario
from support.overlay.judgement import outcome

SLOW_TO_RETURN = """
name = "a client that is not back when the first stand-in dies"
routing = "simple"
ordering = "{ordering}"
links = [["left", "x"], ["x", "right"]]
duration = 2.5

[latency]
default = 0.001
"left-x" = 0.02
"p-x" = 0.08

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "x"
publish = {{ every = 0.003, until = 1.0, attributes = {{ x = 1 }} }}

[[clients]]
id = "near"
broker = "right"
subscribe = ["x = 1"]

[[clients]]
id = "far"
broker = "left"
subscribe = ["x = 1"]

[[steps]]
at = 0.9
do = "crash"
broker = "x"
for_good = true

[[steps]]
at = 1.165
do = "crash"
broker = "x"
for_good = true
"""


@pytest.mark.parametrize("ordering", ["fifo", "causal"])
@pytest.mark.parametrize("seed", range(6))
def test_what_a_client_sends_again_comes_to_those_who_have_heard_of_it_from_the_first_stand_in(ordering, seed):
    """They have heard of it from one that has it. In causal order it is given up, as it was by the first one."""
    *_, flaws = outcome(parse_scenario(SLOW_TO_RETURN.format(ordering=ordering), "relapse.toml"), seed)
    assert flaws == []


WHILE_THE_OTHER_GATHERS = """
name = "two are dead, and the stand-in of one dies before the other one has merged"
routing = "simple"
ordering = "{ordering}"
links = [["a", "x"], ["x", "y"], ["x", "z"]]
duration = 2.5

[latency]
default = 0.001

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.01, until = 2.0, attributes = {{ x = 1 }} }}

[[clients]]
id = "s"
broker = "y"
subscribe = ["x = 1"]

[[steps]]
at = 0.99
do = "crash"
broker = "z"

[[steps]]
at = 1.0
do = "crash"
broker = "x"
for_good = true

[[steps]]
at = 1.0
do = "crash"
broker = "y"
for_good = true

[[steps]]
at = 1.5
do = "crash"
broker = "y"
for_good = true

[[steps]]
at = {back}
do = "restart"
broker = "z"
"""


@pytest.mark.parametrize("ordering", ["fifo", "causal"])
@pytest.mark.parametrize("back", [1.6, 1.8], ids=["before the next one is there", "after that"])
def test_what_was_merged_meanwhile_comes_to_the_next_one(ordering, back):
    scenario = parse_scenario(WHILE_THE_OTHER_GATHERS.format(ordering=ordering, back=back), "relapse.toml")
    _, verdict, flaws = outcome(scenario, 1)
    assert flaws == []
    assert verdict.counts.deliveries > 190


ASKED_BY_THE_FIRST = """
name = "a and b of a swap are dead, and the stand-in of a dies before it has heard from c"
routing = "simple"
ordering = "fifo"
links = [["a", "b"], ["b", "c"], ["b", "r"]]
duration = 2.5

[latency]
default = 0.001
"a-c" = 0.05

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "r"
publish = {{ every = 0.01, until = 2.0, attributes = {{ x = 1 }} }}

[[clients]]
id = "s"
broker = "c"
subscribe = ["x = 1"]

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 1.0035
do = "crash"
broker = "a"
for_good = true

[[steps]]
at = 1.1
do = "crash"
broker = "b"
for_good = true

[[steps]]
at = {again}
do = "crash"
broker = "a"
for_good = true
"""


@pytest.mark.parametrize("again", [1.299, 1.305, 1.34, 1.36])
def test_who_was_asked_by_the_first_one_is_not_waited_for_by_its_neighbours(again):
    """c turns out to be a stranger to a; the second stand-in of a does not ask it any more."""
    _, verdict, flaws = outcome(parse_scenario(ASKED_BY_THE_FIRST.format(again=again), "relapse.toml"), 1)
    assert flaws == []
    assert verdict.counts.deliveries > 190


PUT_OFF = """
name = "c cannot say what becomes of a swap until b is back, and has two stand-ins of a to tell by then"
routing = "simple"
ordering = "fifo"
links = [["a", "b"], ["b", "c"]]
duration = 2.5

[latency]
default = 0.001
"a-c" = {straight}

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "c"
publish = {{ every = 0.01, until = 2.0, attributes = {{ x = 1 }} }}

[[clients]]
id = "s"
broker = "a"
subscribe = ["x = 1"]

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 1.0015
do = "crash"
broker = "a"
for_good = true

[[steps]]
at = 1.0025
do = "crash"
broker = "b"

[[steps]]
at = 1.3
do = "crash"
broker = "a"
for_good = true

[[steps]]
at = 1.7
do = "restart"
broker = "b"
"""


@pytest.mark.parametrize("straight", [0.001, 0.02])
def test_a_testimony_that_was_put_off_is_given_once(straight):
    _, verdict, flaws = outcome(parse_scenario(PUT_OFF.format(straight=straight), "relapse.toml"), 1)
    assert flaws == []
    assert verdict.counts.deliveries > 190


STRANGER = """
name = "a word of a, which is no neighbour of c, comes before what a has sent by way of b"
routing = "simple"
ordering = "causal"
links = [["a", "b"], ["b", "c"]]
duration = 2.5

[latency]
default = 0.001
"a-b" = 0.03
"a-c" = 0.005

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.01, until = 2.0, attributes = {{ x = 1 }} }}

[[clients]]
id = "s"
broker = "c"
subscribe = ["x = 1"]

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 1.02
do = "crash"
broker = "c"
for_good = true

[[steps]]
at = {again}
do = "crash"
broker = "c"
for_good = true
"""


@pytest.mark.parametrize("again", [1.2275, 1.235, 1.24])
def test_what_a_stranger_has_heard_of_is_no_hearsay(again):
    _, verdict, flaws = outcome(parse_scenario(STRANGER.format(again=again), "relapse.toml"), 1)
    assert flaws == []
    assert verdict.counts.deliveries > 190
