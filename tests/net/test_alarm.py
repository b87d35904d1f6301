"""The alarm of a node: it rings when a timer is due, until it has ended."""

import asyncio

from pleach.core.links.upkeep import Upkeep
from pleach.net.alarm import Alarm
from support.live.tiny_broker import until


class Fired:
    """An endpoint that notes when its timers fire."""

    def __init__(self):
        self.upkeep = Upkeep()
        self.at = []

    def fire(self, *, now):
        while self.upkeep.take_due(now):
            self.at.append(now)


def scene(script):
    async def run():
        endpoint, clock = Fired(), asyncio.get_running_loop().time
        alarm = Alarm(endpoint, clock, lambda: None)
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


def test_one_that_has_ended_does_not_ring():
    async def script(endpoint, clock, alarm):
        endpoint.upkeep.timers["t"] = clock()
        alarm.end()
        alarm.set()
        other = Alarm(endpoint, clock, lambda: None)
        assert alarm._handle is None
        other.set()
        await until(lambda: endpoint.at)
        other.end()

    scene(script)
