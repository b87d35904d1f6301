"""The alarm of a node: in time, and after a process was held up only once it has listened for a while."""

import asyncio

from tiny_broker import until

from pleach.links.upkeep import Upkeep
from pleach.live.alarm import Alarm


class Fired:
    """An endpoint that notes when its timers fire."""

    def __init__(self):
        self.upkeep = Upkeep()
        self.at = []

    def fire(self, *, now):
        while self.upkeep.take_due(now):
            self.at.append(now)


class Clock:
    """That of the loop, and what a process was asleep for."""

    def __init__(self):
        self.slept = 0.0

    def __call__(self):
        return asyncio.get_running_loop().time() + self.slept


def scene(script):
    async def run():
        endpoint, clock = Fired(), Clock()
        alarm = Alarm(endpoint, clock, lambda: None, patience=lambda: 0.05)
        await asyncio.wait_for(script(endpoint, clock, alarm), 30)
        alarm.end()

    asyncio.run(run())


def test_it_rings_when_a_timer_is_due():
    async def script(endpoint, clock, alarm):
        due = endpoint.upkeep.timers["t"] = clock() + 0.01
        alarm.set()
        await until(lambda: endpoint.at)
        assert endpoint.at[0] >= due

    scene(script)


def test_a_process_that_was_held_up_listens_first():
    async def script(endpoint, clock, alarm):
        endpoint.upkeep.timers["t"] = clock() + 0.01
        alarm.set()
        clock.slept = 5.0
        woken = clock()
        await until(lambda: alarm._not_before)
        assert endpoint.at == []
        alarm.set()  # as whatever is heard meanwhile has it
        await until(lambda: endpoint.at)
        assert endpoint.at[0] >= woken + 0.05

    scene(script)


def test_one_that_has_ended_does_not_ring():
    async def script(endpoint, clock, alarm):
        endpoint.upkeep.timers["t"] = clock()
        alarm.end()
        alarm.set()
        other = Alarm(endpoint, clock, lambda: None, patience=lambda: 60.0)
        assert alarm._handle is None
        other.set()
        await until(lambda: endpoint.at)
        other.end()

    scene(script)
