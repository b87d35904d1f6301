"""What a dead broker had told and is still held by a neighbour is void: the testimony says what the neighbour has."""

from __future__ import annotations

import pytest

from pleach.scenario.load import parse_scenario
from support.overlay.judgement import outcome

SCENARIO = """
name = "c changes its mind in the middle of a swap, and dies"
routing = "simple"
ordering = "causal"
links = [["a", "b"], ["b", "c"]]
duration = 2.0

[latency]
default = 0.001
"b-c" = 0.0001
"a-c" = 0.02

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.01, until = 1.8, attributes = {{ x = 1 }} }}

[[clients]]
id = "b's"
broker = "b"
subscribe = ["x = 1"]

[[clients]]
id = "s"
broker = "c"
subscribe = {before}

[[steps]]
at = 1.0035
do = "{change}"
client = "s"
filter = "x = 1"

[[steps]]
at = 1.0
do = "swap"
brokers = ["a", "b", "c"]

[[steps]]
at = 1.006
do = "crash"
broker = "c"
for_good = true
"""
CHANGES = {"subscribe": "[]", "unsubscribe": '["x = 1"]'}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_nobody_stays_locked_and_nothing_is_lost(change):
    text = SCENARIO.format(change=change, before=CHANGES[change])
    _, verdict, flaws = outcome(parse_scenario(text, "held.toml"), 1)
    assert flaws == []
    assert verdict.counts.deliveries > 150
