"""How many processes a host has loaded: as many as brokers that the loss of one machine would have it run."""

import asyncio

import pytest

from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.messages import Alive, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.views import View
from pleach.server.standby import host as host_module
from pleach.server.standby.host import SPARES_MAX, StandbyHost
from pleach.server.standby.links import MemberLinks, ProcessId

OWN = "h#1"


class Launcher:
    def __init__(self):
        self.running = {}
        self.spares = 0

    def keep_spares(self, count):
        self.spares = count


def spares_of(place, views, *, seconds_since_promotion=1_000.0):
    """`views`: of each broker whose copy the host has, its copies."""

    async def run():
        launcher = Launcher()
        host = StandbyHost(place, OWN, MemberLinks(ProcessId("h", OWN, 1), heartbeat=1.0), config, launcher)
        for broker, copies in views.items():
            learn(host, broker, copies)
        host._launched_at = host_module.time.monotonic() - seconds_since_promotion
        host.tick()
        return launcher.spares

    return asyncio.run(run())


def config():
    return StandbyConfig(1.0)


def learn(host, broker, copies):
    held = host.links.on_unknown(broker, copies[0], Alive(broker, 1))
    held.received(copies[0], ViewInstalled(broker, 1, View(broker, 1, copies, ("w#1",))))
    held.member.position = Position(1, 1)


@pytest.mark.parametrize(
    ("views", "count"),
    [
        ({}, 0),
        ({"b": ("m#1", OWN)}, 1),
        ({"b": ("m#1", OWN), "c": ("n#1", OWN)}, 1),
        ({"b": ("m#1", OWN), "c": ("m#1", OWN), "d": ("n#1", OWN)}, 2),
        ({"b": ("m#1", "n#1", OWN), "c": ("m#1", "n#1", OWN)}, 1),
        ({f"b{n}": ("m#1", OWN) for n in range(9)}, SPARES_MAX),
    ],
    ids=["no copy", "one", "of two machines", "two of one machine", "another is first", "many"],
)
def test_as_many_as_one_machine_may_leave_behind(tmp_path, views, count):
    assert spares_of(tmp_path, views) == count


def test_none_is_loaded_while_brokers_come_back(tmp_path):
    assert spares_of(tmp_path, {"b": ("m#1", OWN)}, seconds_since_promotion=0.5) == 0
