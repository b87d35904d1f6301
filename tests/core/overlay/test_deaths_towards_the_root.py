"""A broker of a swap dies for good in a hierarchical network: its stand-in has to know which way the root lies.

What the dead broker had for its parent may be out of date: c, on the new routing, has a for its parent, and if it dies
before a has heard of that, the swap is undone and the way to the root leads over b again.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.scenario.load import parse_scenario
from pleach.scenario.steps import Crash
from support.overlay.judgement import outcome

NETWORK = """
name = "a death, and the way to the root"
routing = "simple"
hierarchical = true
root = "{root}"
ordering = "causal"
links = [["n", "a"], ["a", "b"], ["b", "c"], ["c", "m"]]
duration = 2.0

[latency]
default = [0.001, 0.003]
"a-c" = {straight}

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "upper"
broker = "n"
subscribe = ["x = 1"]
publish = {{ every = 0.005, from = 0.9, until = 1.4, attributes = {{ x = 2 }} }}

[[clients]]
id = "lower"
broker = "m"
subscribe = ["x = 2"]
publish = {{ every = 0.005, from = 0.9, until = 1.4, attributes = {{ x = 1 }} }}

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]
"""
MOMENTS = [round(1.0 + 0.003 * step, 4) for step in range(9)]


def flaws_of(root, straight, dying, at):
    scenario = parse_scenario(NETWORK.format(root=root, straight=straight), "root.toml")
    crash = Crash(at=at, broker=dying, for_good=True)
    _, verdict, flaws = outcome(msgspec.structs.replace(scenario, steps=(*scenario.steps, crash)), 1)
    assert verdict.counts.deliveries > 100
    return flaws


@pytest.mark.parametrize("dying", ["a", "b", "c"])
@pytest.mark.parametrize("root", ["n", "m"])
@pytest.mark.parametrize("straight", [0.001, 0.02], ids=["the word of c is soon there", "the word of c takes long"])
def test_at_every_moment(dying, root, straight):
    found = {at: flaws_of(root, straight, dying, at) for at in MOMENTS}
    assert {at: each for at, each in found.items() if each} == {}


TWO_SWAPS = """
name = "the way to the root is told by who has both ends for neighbours, not by who wanted to"
routing = "simple"
hierarchical = true
root = "c"
ordering = "causal"
links = [["a", "b"], ["b", "c"], ["also", "b"]]
duration = 2.0

[latency]
default = 0.001

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "lower"
broker = "a"
subscribe = ["x = 1"]
publish = { every = 0.01, until = 1.4, attributes = { x = 1 } }

[[clients]]
id = "upper"
broker = "c"
subscribe = ["x = 1"]

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 1.004
do = "swap"
brokers = ["also", "b", "a"]

[[steps]]
at = 1.0063
do = "crash"
broker = "a"
for_good = true

[[steps]]
at = 1.06
do = "crash"
broker = "b"
for_good = true
"""


def test_the_way_to_the_root_when_two_are_dead_that_are_no_neighbours_any_more():
    watched, _, flaws = outcome(parse_scenario(TWO_SWAPS, "two.toml"), 1)
    assert flaws == []
    assert {name: broker.router.parent for name, broker in watched.run.brokers.items()} == {
        "a": "c",
        "b": "c",
        "also": "b",
        "c": None,
    }
