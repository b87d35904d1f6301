"""When an exchange is over: not before the slowest broker of the cycle is free."""

from __future__ import annotations

import pytest

from pleach.core.overlay.registry import EXCHANGES
from pleach.lab.exchanges.consequences import run_exchange
from pleach.scenario.load import parse_scenario
from pleach.trace import RecordKind

AT = 1.0
SLOW = 0.2  # seconds, on the far side of r
FAR_SIDE = """
name = "slow far side"
routing = "identity"
links = [["u", "x"], ["x", "y"], ["y", "w"], ["w", "v"]]
duration = 8.0
exchange = "{protocol}"

[latency]
default = 0.001
"y-w" = {slow}

[[clients]]
id = "s"
broker = "v"
subscribe = ["a = 1"]

[[steps]]
at = {at}
do = "exchange"
remove = ["x", "y"]
add = ["u", "v"]
"""


def slow_on_the_far_side(protocol):
    return parse_scenario(FAR_SIDE.format(protocol=protocol, slow=SLOW, at=AT))


@pytest.mark.parametrize("protocol", [name for name in EXCHANGES if "printed" not in name])
def test_it_lasts_until_nobody_is_locked(protocol):
    exchanged = run_exchange(slow_on_the_far_side(protocol), 1)
    assert exchanged.is_complete
    assert exchanged.done_at >= exchanged.witness.unlocked_at > AT


def test_the_side_of_the_one_that_is_asked_may_be_done_earlier():
    exchanged = run_exchange(slow_on_the_far_side("advanced-coordinated"), 1)
    said = [record.at for record in exchanged.records if record.kind == RecordKind.STATE and "done" in record.detail]
    assert exchanged.done_at == max(said)
    assert exchanged.done_at - min(at for at in said if at > AT) >= 0.9 * SLOW
