"""When the machine of a host that leaves may end, and what its host does no more when it stops."""

import asyncio

import pytest

from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.messages import Alive, Prepare, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Ballot, Register, View
from pleach.server.standby import host as host_module
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.links import MemberLinks, ProcessId
from pleach.server.standby.registers import RegisterFile, broker_folder
from pleach.server.storage.store import Store

OWN, PRIMARY = "h#1", "b#1"
VIEW = View("b", 1, (PRIMARY, OWN), ("w#1",))


class Launcher:
    def __init__(self):
        self.running = {}

    def launch(self, broker, _files, _silent):
        self.running[broker] = 1

    async def stop(self):
        pass


def host_in(place):
    links = MemberLinks(ProcessId("h", OWN, 1), heartbeat=1.0)
    return StandbyHost(place, OWN, links, lambda: StandbyConfig(1.0), Launcher())


def learn(host, view):
    held = host.links.on_unknown("b", PRIMARY, Alive("b", 1))
    held.received(PRIMARY, ViewInstalled("b", view.number, view))
    return held


async def done(host):
    while host._tasks:
        await asyncio.wait(host._tasks)


@pytest.mark.parametrize("patience", [0.0, 10.0])
def test_a_vote_is_kept_for_a_while_only(tmp_path, monkeypatch, patience):
    monkeypatch.setattr(host_module, "VOTE_PATIENCE", patience - 1.0)

    async def story():
        host = host_in(tmp_path)
        assert host.leave()
        learn(host, View("b", 1, (PRIMARY, "s#1"), (OWN,)))
        assert host.needed_for == []
        assert host.leave() == (patience == 0.0)

    asyncio.run(story())


def test_a_copy_that_is_being_opened_is_needed(tmp_path):
    """Of a broker, for example, that ran here until another machine took it over, and has all its data here still."""
    folder = broker_folder(tmp_path, "b")
    RegisterFile(folder).save(Register(VIEW))
    Store.open(folder / "data", "b", epoch=7).close()

    async def story():
        host = host_in(tmp_path)
        host.ended("b")
        assert not host._held
        assert host.needed_for == ["b"]
        assert not host.leave()
        await done(host)
        assert host._held["b"].is_copy
        assert not host.leave()
        await host.stop()

    asyncio.run(story())


def test_a_broker_that_was_promoted_is_needed_before_its_process_is_there(tmp_path):
    async def story():
        host = host_in(tmp_path)
        held = learn(host, VIEW)
        host.promoted("b", VIEW.promoting(OWN), [])
        assert not host._held
        assert host.needed_for == ["b"]
        assert not host.leave()
        held.files = object()
        await done(host)
        assert host._launcher.running == {"b": 1}
        assert not host.leave()

    asyncio.run(story())


def test_a_host_that_stops_makes_no_new_member_of_one_that_has_promised(tmp_path):
    """It would learn the view again, and save it without the promise: a vote that is given twice."""

    async def story():
        host = host_in(tmp_path)
        held = learn(host, VIEW)
        held.member.position = Position(1, 1)
        ballot = Ballot(1, PRIMARY)
        held.received(PRIMARY, Prepare("b", 1, ballot))
        register = RegisterFile(broker_folder(tmp_path, "b"))
        assert register.load().promised == ballot
        await host.stop()
        assert host.links.on_unknown("b", PRIMARY, Alive("b", 1)) is None
        assert host.links.on_unknown("b", PRIMARY, ViewInstalled("b", 1, VIEW)) is None
        assert register.load().promised == ballot

    asyncio.run(story())
