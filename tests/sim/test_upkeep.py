"""Timers that recur for ever: no drain waits for them, and none puts them out of step."""

from __future__ import annotations

import pytest

from pleach.core.effects import Send, SetTimer
from pleach.core.messages import Attached
from pleach.sim.simulator import Simulator


class Beating:
    """Notes when its timer fires, sets it again, and sends something that is under way for a while."""

    def __init__(self, every, to=""):
        self.every = every
        self.to = to
        self.beats = []

    def start(self, phase):
        return [SetTimer("beat", phase, is_upkeep=True)]

    def handle(self, sender, message, *, now):
        return []

    def handle_timer(self, name, *, now):
        self.beats.append(round(now, 9))
        said = [Send(self.to, Attached())] if self.to else []
        return [*said, SetTimer("beat", self.every, is_upkeep=True)]


@pytest.fixture
def pair():
    sim = Simulator("upkeep")
    a, b = Beating(1.0, to="b"), Beating(2.0)
    for name, machine in (("a", a), ("b", b)):
        sim.add(name, machine)
    sim.link("a", "b", (0.4, 0.4))
    sim.perform("a", a.start(0.5))
    sim.perform("b", b.start(1.0))
    return sim, a, b


def test_they_fire_up_to_a_given_time(pair):
    sim, a, b = pair
    sim.run(until=3.0)
    assert a.beats == [0.5, 1.5, 2.5]
    assert b.beats == [1.0, 3.0]


def test_they_fire_while_something_is_planned_and_do_not_keep_a_run_alive(pair):
    sim, a, _ = pair
    sim.at(2.0, lambda: None)
    sim.run()
    assert a.beats == [0.5, 1.5]


def test_a_drain_does_not_wait_for_them_and_keeps_them_in_step(pair):
    sim, a, b = pair
    sim.run(until=2.5)
    assert sim.drain(), "what a sent at 2.5 has arrived"
    assert sim.now == pytest.approx(2.9)
    sim.run(until=4.5)
    assert a.beats == [0.5, 1.5, 2.5, 3.9]
    assert b.beats == [1.0, 3.4], "both are later by the 0.4 s that the drain took"


def test_a_timer_that_is_set_again_fires_once(pair):
    sim, _, b = pair
    sim.perform("b", b.start(0.2))
    sim.run(until=1.5)
    assert b.beats == [0.2]
