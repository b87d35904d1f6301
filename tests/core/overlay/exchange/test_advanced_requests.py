"""Requests that meet a coordinated reconfiguration, mostly an advanced one: confirmations tell the truth.

The first two were found by one seed in ten thousand (`long_run.py exchange`), and are swept here.
"""

from __future__ import annotations

import pytest

from pleach.core.events.language import parse_filter
from pleach.core.messages import RequestExchange
from pleach.scenario.load import parse_scenario
from pleach.trace import RecordKind
from support.overlay.judgement import outcome
from support.overlay.memory_loss import World

# p wants everything from the start, by way of x–y. When w is gray it has told u of that long ago, and so tells u
# nothing of what s wants then. But u has not told y over u–y: what x confirms is not enough.
COVERED_FROM_BEYOND = """
name = "covered by what came over the old link"
routing = "{routing}"
ordering = "causal"
exchange = "advanced-coordinated"
links = [["u", "w"], ["w", "x"], ["x", "y"], ["w", "z"]]
duration = 0.8

[latency]
default = 0.001
"u-w" = 0.012
"x-y" = 0.02

[[clients]]
id = "p"
broker = "y"
subscribe = ["EXISTS lane"]
publish = {{ every = 0.002, until = 0.5, attributes = {{ lane = 1 }} }}

[[clients]]
id = "s"
broker = "z"

[[steps]]
at = 0.25
do = "exchange"
remove = ["x", "y"]
add = ["u", "y"]

[[steps]]
at = {at}
do = "subscribe"
client = "s"
filter = "lane = 1"
"""

# What p publishes last goes over b–f, and waits there until nothing comes over b–c any more; that p takes its
# advertisement back must not overtake it.
TAKEN_BACK = """
name = "an advertisement that is taken back"
routing = "covering"
advertisements = true
ordering = "{ordering}"
exchange = "advanced-coordinated"
links = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "f"]]
duration = 0.8

[latency]
default = 0.001
"c-d" = 0.03

[[clients]]
id = "s"
broker = "c"
subscribe = ["x = 1"]

[[clients]]
id = "p"
broker = "a"
advertise = ["x = 1"]
publish = {{ every = 0.004, until = 0.7, attributes = {{ x = 1 }} }}

[[steps]]
at = 0.25
do = "exchange"
remove = ["b", "c"]
add = ["b", "f"]

[[steps]]
at = {at}
do = "unadvertise"
client = "p"
filter = "x = 1"
"""


def judged(text: str) -> list[str]:
    watched, _, flaws = outcome(parse_scenario(text))
    assert any(r.kind == RecordKind.DELIVER for r in watched.run.recorder.records)
    assert not watched.run.refusals
    return flaws


@pytest.mark.parametrize("routing", ["covering", "merging"])
@pytest.mark.parametrize("start", range(310, 350, 10))
def test_a_subscription_covered_by_what_came_over_the_old_link_is_confirmed_by_the_new_way(routing, start):
    for milliseconds in range(start, start + 10):
        text = COVERED_FROM_BEYOND.format(routing=routing, at=milliseconds / 1000)
        assert not judged(text), f"asked for at {milliseconds} ms"


@pytest.mark.parametrize("ordering", ["none", "fifo", "causal"])
@pytest.mark.parametrize("start", range(280, 400, 40))
def test_an_advertisement_that_is_taken_back_does_not_overtake_events_that_wait(ordering, start):
    for milliseconds in range(start, start + 40, 8):
        text = TAKEN_BACK.format(ordering=ordering, at=milliseconds / 1000)
        assert not judged(text), f"taken back at {milliseconds} ms"


# Coordinated unsubscriptions ---------------------------------------------------------------------------------------


def hand_over_all_but(world, *slow):
    while waiting := sorted(ends for ends, queue in world.queues.items() if queue and ends not in slow):
        world.hand_over(*waiting[0])


def is_confirmed(world, subscription):
    return any(r.kind == RecordKind.SUBSCRIBE_ACK and r.subscription == subscription for r in world.recorder.records)


def test_what_waits_for_an_answer_over_the_old_link_is_confirmed_by_the_new_way():
    """When 2 removes 2–3, the flush of 4 has come, but what s wants since the lock is still on its way over 1–4."""
    world = World([("1", "2"), ("2", "3"), ("3", "4")], {"s": "2", "p": "4"})
    world.ask("1", RequestExchange("1", ["1", "2", "3", "4"], 1, "coordinated"))
    hand_over_all_but(world, ("4", "1"))
    world.perform("s", world.clients["s"].subscribe("late", parse_filter("to = 'late'")))
    hand_over_all_but(world, ("4", "1"), ("2", "3"))
    hand_over_all_but(world, ("1", "4"), ("2", "3"))
    world.hand_over("1", "4")  # 4 is told to link, and nothing else
    hand_over_all_but(world, ("1", "4"), ("2", "3"))
    assert "3" not in world.brokers["2"].router.neighbours
    assert not is_confirmed(world, "late")
    world.drain()
    assert is_confirmed(world, "late")
    assert world.heard("late") == ["s"]
