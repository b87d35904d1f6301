"""The end of a broker in its seat: what the thread of its disk has posted comes later, and finds the store closed."""

import asyncio
from types import SimpleNamespace

import pytest

from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Register, View
from pleach.server.standby.fill_sender import FillSender, Follower
from pleach.server.standby.primary_seat import MachineHost, PrimarySeat
from pleach.server.standby.registers import RegisterFile
from pleach.server.standby.replication import Replication

VIEW = View("b", 1, ("b#1", "s#1"), ("w#1",))


class ClosedDisk:
    store = SimpleNamespace(position=Position(1, 1))

    def call(self, _function):
        raise RuntimeError("cannot schedule new futures after shutdown")


def seat_in(place):
    nothing = lambda *_: None  # noqa: E731
    member = StandbyMember("b#1", "b", StandbyConfig(0.05), register=Register(VIEW))
    links = SimpleNamespace(attach=nothing, detach=nothing, send=nothing)
    file = RegisterFile(place)
    return PrimarySeat(member, file, links, files=nothing, on_deposed=nothing, on_failed=nothing, host=MachineHost())


def role_that_fills():
    """A broker's role, with a fill that has begun; and that."""
    fill = FillSender("b", 1, ClosedDisk(), view=lambda: 1, send=lambda _: None, on_failed=lambda: None)
    fill._source = SimpleNamespace(next_chunk=lambda: b"chunk")
    role = Replication.__new__(Replication)
    role._followers = {"s#1": Follower("s#1", fill)}
    return role, fill


@pytest.mark.parametrize("has_left", [False, True])
def test_a_fill_ends_with_its_broker(tmp_path, has_left):
    async def story():
        seat = seat_in(tmp_path)
        seat.role, fill = role_that_fills()
        dissolving = asyncio.create_task(seat.dissolve()) if has_left else None
        await asyncio.sleep(0)
        if dissolving is None:
            seat.end()
        fill._pass_on(b"chunk", Position(1, 1))  # was read before the store was closed
        assert not seat.role._followers
        if dissolving is not None:
            await dissolving

    asyncio.run(story())
