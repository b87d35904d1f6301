"""A copy that is not needed any more, and is wanted again before its files are closed."""

import asyncio
from types import SimpleNamespace

import pytest

from pleach.core.standby.effects import Discard, StoreRecord
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.positions import Position
from pleach.server.standby import held_copy
from pleach.server.standby.held_copy import CopyPlace, HeldCopy

RECORD = StoreRecord(Position(1, 1), Position(1, 2), b"")


class SlowWriter:
    """A replica whose files take a while to close."""

    made: list["SlowWriter"]

    def __init__(self, *_):
        self.jobs = []
        self.waiting_bytes = 0
        self.may_close = asyncio.Event()
        self.made.append(self)

    def add(self, job):
        self.jobs.append(job)

    async def close(self):
        await self.may_close.wait()


@pytest.fixture
def made(monkeypatch):
    SlowWriter.made = []
    monkeypatch.setattr(held_copy, "ReplicaWriter", SlowWriter)
    return SlowWriter.made


def held_in(folder):
    member = StandbyMember("m#1", "b", StandbyConfig(after=1.0))
    return HeldCopy(SimpleNamespace(links=SimpleNamespace()), CopyPlace(folder), member, None)


def test_what_comes_while_a_copy_is_discarded_waits_until_its_place_is_free(tmp_path, made):
    async def story():
        held = held_in(tmp_path)
        held._perform(RECORD)
        held._perform(Discard())
        await asyncio.sleep(0)
        held._perform(RECORD)
        await asyncio.sleep(0)
        assert len(made) == 1
        made[0].may_close.set()
        await asyncio.sleep(0.01)
        assert len(made) == 2
        assert made[1].jobs == [RECORD]

    asyncio.run(story())


def test_where_nothing_comes_nothing_stays(tmp_path, made):
    async def story():
        held = held_in(tmp_path / "b")
        held.place.data.mkdir(parents=True)
        held._perform(RECORD)
        held._perform(Discard())
        held._perform(Discard())
        await asyncio.sleep(0)
        made[0].may_close.set()
        await asyncio.sleep(0.01)
        assert len(made) == 1
        assert not held.place.data.exists()

    asyncio.run(story())
