"""A broker leaves while its clients wait for confirmations: its heir gives them, and it does not.

A second confirmation could pass for that of a subscription made under the same name since.
"""

from __future__ import annotations

import pytest

from pleach.scenario.load import parse_scenario
from pleach.trace import RecordKind
from support.overlay.judgement import outcome

SCENARIO = """
name = "heir and leaver"
routing = "simple"
ordering = "fifo"
links = [["a", "b"], ["a", "c"]]
duration = 1.0

[latency]
default = 0.001
"a-b" = 0.03

[[clients]]
id = "s"
broker = "b"

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.01, until = 0.9, attributes = {{ x = 1 }} }}

[[steps]]
at = 0.1
do = "remove_broker"
broker = "b"

[[steps]]
at = {asked}
do = "subscribe"
client = "s"
filter = "x = 1"

[[steps]]
at = {taken_back}
do = "unsubscribe"
client = "s"
filter = "x = 1"

[[steps]]
at = {asked_again}
do = "subscribe"
client = "s"
filter = "x = 1"

[[steps]]
at = 0.24
do = "crash"
broker = "a"

[[steps]]
at = 0.5
do = "restart"
broker = "a"
"""

# b hands its clients over at 0.16, which its heir has at 0.19; what the client asked for until then waits at b.


@pytest.mark.parametrize("asked", [0.105, 0.12, 0.135, 0.15, 0.158, 0.165])
@pytest.mark.parametrize(("taken_back", "asked_again"), [(0.17, 0.175), (0.17, 0.2), (0.18, 0.23)])
def test_each_request_is_confirmed_once(asked, taken_back, asked_again):
    text = SCENARIO.format(asked=asked, taken_back=taken_back, asked_again=asked_again)
    watched, _, flaws = outcome(parse_scenario(text))
    assert flaws == []
    confirmations = [r for r in watched.run.recorder.records if r.kind == RecordKind.SUBSCRIBE_ACK]
    assert 1 <= len(confirmations) <= 2, "the first may be taken back before it is confirmed"
