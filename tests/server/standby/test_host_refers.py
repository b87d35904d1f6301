"""What a host tells clients that ask for a broker of which it knows nothing: where another broker is."""

import asyncio
import time

import pytest

from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Alive, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Register, View
from pleach.net.addresses import BrokerAddresses
from pleach.net.enquiry import Whereabouts
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from pleach.server.standby.broker_files import files_of
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.links import MemberLinks, ProcessId
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.standby.registers import RegisterFile
from pleach.server.storage.store import Store

AFTER = 1.0
X_AT, B_AT = "127.0.0.1:7101", "127.0.0.1:7102"


class Launcher:
    def __init__(self, *running):
        self.running = dict.fromkeys(running, 1)

    def addresses_of(self, broker):
        return BrokerAddresses(X_AT, "127.0.0.1:7201", "") if broker in self.running else None


def host_in(place, *running):
    links = MemberLinks(ProcessId("h", "h#1", 1), heartbeat=AFTER)
    return StandbyHost(place, "h#1", links, lambda: StandbyConfig(AFTER), Launcher(*running))


def hears(host, broker, settings):
    """The host has a copy of a broker, whose primary it has just heard."""
    links, primary = host.links, f"{broker}#1"
    links.on_unknown(broker, primary, Alive(broker, 1)).received(
        primary, ViewInstalled(broker, 1, View(broker, 1, (primary, "h#1")))
    )
    held = host._held[broker]
    held._keep(files_of(settings))
    held.member.position = Position(1, 1)
    return held


def test_a_broker_that_runs_there_knows_more(tmp_path):
    async def story():
        host = host_in(tmp_path, "x")
        assert host.refer("z", Port.CLIENTS) == Whereabouts(0, is_there=False, address=X_AT)
        assert host.refer("z", Port.PEERS) is None

    asyncio.run(story())


@pytest.mark.parametrize("silence", [0.0, 2 * AFTER])
def test_a_broker_that_is_heard_there_knows_more(tmp_path, silence):
    async def story():
        host = host_in(tmp_path)
        held = hears(host, "b", BrokerSettings("b", client_listen=B_AT))
        held.member.timing.note_primary(time.monotonic() - silence)
        told = host.refer("z", Port.CLIENTS)
        assert told == (None if silence else Whereabouts(0, is_there=False, address=B_AT))
        assert host.refer("b", Port.CLIENTS) == Whereabouts(1, is_there=True, address=B_AT)

    asyncio.run(story())


def test_a_vote_alone_tells_nothing_of_where_its_broker_is_by_now(tmp_path):
    async def story():
        host = host_in(tmp_path)
        held = hears(host, "b", BrokerSettings("b", client_listen=B_AT))
        later = View("b", 2, ("c#1", "b#1"), ("h#1",))
        held.received("b#1", ViewInstalled("b", 2, later))
        assert held.member.number == 2
        assert host.refer("b", Port.CLIENTS) is None

    asyncio.run(story())


def test_where_nobody_is_heard_nothing_is_told(tmp_path):
    async def story():
        assert host_in(tmp_path).refer("z", Port.CLIENTS) is None

    asyncio.run(story())


def test_a_broker_with_copies_tells_what_its_machine_knows(tmp_path):
    async def story():
        host = host_in(tmp_path / "h", "x")
        register = Register(View("b", 1, ("h#1", "z#1")))
        seat = PrimarySeat(
            StandbyMember("h#1", "b", StandbyConfig(AFTER), register=register),
            RegisterFile(tmp_path / "register"),
            host.links,
            files=lambda: files_of(BrokerSettings("b")),
            on_deposed=lambda _: None,
            on_failed=lambda _: None,
            host=host,
        )
        with Store.open(tmp_path / "b", "b", epoch=1) as store:
            seat.opened(store)
            node = BrokerNode(BrokerSettings("b"), store, 1, clock=lambda: 0.0, on_end=lambda *_: None, seat=seat)
            assert node.directory.whereabouts("x", Port.CLIENTS) == Whereabouts(0, is_there=True, address=X_AT)
            assert node.directory.whereabouts("y", Port.CLIENTS) is None
            seat.end()
            node.committer.close()

    asyncio.run(story())
