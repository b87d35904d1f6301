"""What a host says for brokers that were promoted on its machine, as long as their processes are being started."""

import asyncio

import pytest

from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.messages import Alive, ViewInstalled
from pleach.core.standby.views import View
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.links import MemberLinks, ProcessId

OWN, VOTER = "h#1", "v#1"


class Launcher:
    def __init__(self):
        self.running = {}

    def launch(self, broker, _files, _silent):
        self.running[broker] = 0

    def keep_spares(self, _count):
        pass


@pytest.fixture
def links(monkeypatch):
    """Those of the machine; what is said by them is kept in `said`."""
    made = MemberLinks(ProcessId("h", OWN, 1), heartbeat=1.0)
    made.said = []
    monkeypatch.setattr(made, "send", lambda broker, machine, _, message: made.said.append((broker, machine, message)))
    return made


async def promoted(host, *brokers):
    """The host had a copy of each."""
    for broker in brokers:
        view = View(broker, 1, (primary := f"{broker}#1", OWN), (VOTER,))
        held = host.links.on_unknown(broker, primary, Alive(broker, 1))
        held.received(primary, ViewInstalled(broker, 1, view))
        held.files = object()
        host.promoted(broker, view.promoting(OWN), [])
    await asyncio.wait(host._tasks)


def said_in_a_tick(host):
    host.links.said.clear()
    host.tick()
    return host.links.said


def alive(broker):
    return [(broker, machine, Alive(broker, 2)) for machine in (f"{broker}#1", VOTER)]


def test_each_is_said_to_be_alive_until_its_process_speaks_or_has_ended(tmp_path, links):
    async def story():
        host = StandbyHost(tmp_path, OWN, links, lambda: StandbyConfig(1.0), Launcher())
        await promoted(host, "b", "c")
        assert said_in_a_tick(host) == [*alive("b"), *alive("c")]
        host._launcher.running = {"b": 7, "c": 8}
        assert said_in_a_tick(host) == [*alive("b"), *alive("c")]
        host._launcher.running["b"] = 9  # another process: let another machine try
        assert said_in_a_tick(host) == alive("c")
        assert links.on_unknown("c", OWN, Alive("c", 2)) is None
        assert said_in_a_tick(host) == []

    asyncio.run(story())
