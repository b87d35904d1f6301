"""A copy that is not needed any more, and is wanted again before its files are closed; a copy that is promoted."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from pleach.core.standby.effects import Discard, Promote, StoreRecord
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Append, Appended, Ask, Here, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Register, View
from pleach.server.standby import held_copy
from pleach.server.standby.held_copy import CopyPlace, HeldCopy
from pleach.server.standby.messages import FillEnd, FillRefused, FillTaken
from pleach.server.standby.replica_writer import Settled, Stored

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


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_for_a_primary_leads_to_nothing_at_a_copy(tmp_path, made, number):
    """It was the primary before: a machine that it filled then answers late."""
    held, told = told_by(tmp_path, View("b", 2, ("p#1", "m#1"), ("w#1",)))
    before = held.member.register, held.member.position
    for message in (FillTaken("b", number, 5, 1), FillRefused("b", number, 5, "the disk is full")):
        held.received("w#1", message)
    assert (held.member.register, held.member.position) == before
    assert not [*told, *made]


# Reading no faster than the disk writes --------------------------------------------------------------------------


class Reading:
    """Links that know from whom nothing is read."""

    def __init__(self):
        self.paused = set()

    def pause_reading(self, machine, _broker):
        self.paused.add(machine)

    def resume_reading(self, machine, _broker):
        self.paused.discard(machine)

    def send(self, *_):
        pass


def overtaxed(tmp_path, made):
    """A copy whose disk has not written yet what the primary p#1 has sent."""
    links = Reading()
    member = StandbyMember("m#1", "b", StandbyConfig(after=1.0), register=Register(VIEW), position=Position(1, 1))
    held = HeldCopy(SimpleNamespace(links=links), CopyPlace(tmp_path), member, None)
    held._perform(RECORD)
    made[0].waiting_bytes = held_copy.WAITING_BYTES_MAX + 1
    held.received("p#1", Append("b", 1, *RECORD))
    assert links.paused == {"p#1"}
    return held, links


def test_a_former_source_is_read_from_again_too(tmp_path, made):
    """Its machine may run other brokers, whose copies are here."""

    async def story():
        held, links = overtaxed(tmp_path, made)
        later = View("b", 2, ("s#1", "m#1", "p#1"), ("w#1",))
        held.received("w#1", ViewInstalled("b", 2, later))
        held.received("s#1", Append("b", 2, *RECORD))
        assert links.paused == {"p#1", "s#1"}
        made[0].waiting_bytes = 0
        made[0].on_report(Stored(RECORD.position))
        assert not links.paused

    asyncio.run(story())


def test_when_a_copy_is_discarded_its_source_is_read_from_again(tmp_path, made):
    async def story():
        held, links = overtaxed(tmp_path, made)
        held.received("w#1", ViewInstalled("b", 2, View("b", 2, ("p#1", "s#1"), ("w#1",))))
        await asyncio.sleep(0)
        assert not links.paused
        made[0].may_close.set()

    asyncio.run(story())


# While a fill takes the place of a copy -----------------------------------------------------------------------------

OLD, NEW = Position(1, 10), Position(2, 10)
END = FillEnd("b", 1, 5, NEW)


def told_by(tmp_path, view):
    """A copy, and what it has said to whom."""
    told = []
    links = SimpleNamespace(send=lambda _broker, machine, _address, message: told.append((machine, message)))
    member = StandbyMember("m#1", "b", StandbyConfig(after=1.0), register=Register(view), position=OLD)
    return HeldCopy(SimpleNamespace(links=links), CopyPlace(tmp_path), member, None), told


@pytest.mark.parametrize("there", [OLD, NEW], ids=["it is dropped", "it is taken"])
def test_a_copy_answers_for_nothing_until_it_is_known_what_came_of_a_fill(tmp_path, made, there):
    """The next primary takes the old copy for a whole one, and the new one, of the former primary, may lack something.

    Each of three copies had a record that was lost with the primary's process; it fills them anew, and is lost itself.
    """
    view = View("b", 1, ("p#1", "s#1", "m#1"), ("v#1", "w#1"))

    async def story():
        held, told = told_by(tmp_path, view)
        held.received("p#1", END)
        (writer,) = made
        writer.on_report(Stored(OLD))  # of before
        held.received("s#1", ViewInstalled("b", 2, view.promoting("s#1")))
        assert told == [("s#1", Here("b", 2, None))]
        assert not held.may_be_promoted
        writer.on_report(Settled(there))
        assert told[1:] == [("s#1", Appended("b", 2, there))]
        assert held.may_be_promoted

    asyncio.run(story())


# Who is silent when a copy is promoted ----------------------------------------------------------------------------

VIEW = View("b", 1, ("p#1", "m#1"), ("w#1",), dict.fromkeys(("p#1", "m#1", "w#1"), ""))


def promoted_after(tmp_path, monkeypatch, heard):
    """Which members are told to be silent; `heard`: how many seconds ago each was."""
    promoted = []
    holder = SimpleNamespace(links=SimpleNamespace(send=lambda *_: None), promoted=lambda *told: promoted.append(told))
    member = StandbyMember("m#1", "b", StandbyConfig(after=1.0), register=Register(VIEW), position=Position(1, 1))
    held, now = HeldCopy(holder, CopyPlace(tmp_path), member, None), time.monotonic()
    for machine, seconds in heard.items():
        monkeypatch.setattr(held.driver, "_clock", lambda at=now - seconds: at)
        held.received(machine, Ask("b", 1))
    monkeypatch.setattr(held.driver, "_clock", lambda: now)
    held._perform(Promote(VIEW.promoting("m#1")))
    ((broker, view, silent),) = promoted
    assert (broker, view.primary) == ("b", "m#1")
    return silent


@pytest.mark.parametrize(
    ("heard", "silent"),
    [
        ({"p#1": 1.2, "w#1": 0.1}, ["p#1"]),
        ({"w#1": 0.1}, ["p#1"]),
        ({"p#1": 0.1, "w#1": 0.2}, []),
        ({"p#1": 0.1}, []),
        ({"p#1": 0.1, "w#1": 0.2, "stranger#1": 0.0}, []),
    ],
    ids=[
        "the primary was lost",
        "it was never heard",
        "the primary has asked for it",
        "it was quicker",
        "a stranger spoke",
    ],
)
def test_whoever_promotes_a_copy_tells_which_members_are_silent(tmp_path, monkeypatch, heard, silent):
    assert promoted_after(tmp_path, monkeypatch, heard) == silent
