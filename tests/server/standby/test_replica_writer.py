"""A replica's thread: what it writes together, what it reports, and when it asks to be brought up again."""

import asyncio
import time
from random import Random

import pytest

from pleach.core.standby.effects import StoreRecord
from pleach.core.standby.positions import Position
from pleach.errors import StoreFullError
from pleach.server.standby import replica_writer
from pleach.server.standby.messages import BrokerFiles, FillBegin, FillEnd, FillPart
from pleach.server.standby.replica_writer import (
    ChunkTaken,
    FillEnded,
    ReplicaWriter,
    Settled,
    Stored,
    Strayed,
    WriterFailed,
)
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store
from support.live.tiny_broker import until
from support.standby.random_batches import RandomBatches

FILES = BrokerFiles(b"{}")


class Primary:
    """A store, and all that it has handed out."""

    def __init__(self, folder):
        self.store = Store.open(folder, "b", epoch=1)
        self.store.begin_run(7)
        self.records = []
        self.store.on_record = lambda previous, position, record: self.records.append(
            StoreRecord(previous, position, record)
        )
        self._batches = RandomBatches(Random(1), 1)

    def commit(self, count=1):
        """Returns the records of these commits."""
        for _ in range(count):
            self._batches.commit_to(self.store)
        return self.records[-count:]

    def fill(self, number=5):
        """All messages of a fill."""
        fill = self.store.fill()
        chunks = list(iter(fill.next_chunk, None))
        parts = [FillPart("b", 1, number, index, chunk) for index, chunk in enumerate(chunks, 1)]
        return [FillBegin("b", 1, number, FILES), *parts, FillEnd("b", 1, number, self.store.position)]


class Copy:
    def __init__(self, folder):
        self.writer = ReplicaWriter(folder, "b")
        self.reports = []
        self.writer.on_report = self.reports.append

    async def take(self, *jobs):
        """Returns the reports of these jobs."""
        self.reports.clear()
        for job in jobs:
            self.writer.add(job)
        await until(lambda: self.writer._working is None)
        return list(self.reports)

    @property
    def position(self):
        return self.writer._replica.position


@pytest.fixture
def run(tmp_path):
    def of(story):
        async def told():
            primary, copy = Primary(tmp_path / "primary"), Copy(tmp_path / "copy")
            try:
                await story(primary, copy)
            finally:
                await copy.writer.close()
                primary.store.close()

        asyncio.run(asyncio.wait_for(told(), 60))

    return of


def test_what_has_arrived_is_written_in_one_transaction_and_told_once(run):
    async def story(primary, copy):
        primary.commit(3)
        *taken, ended, settled = await copy.take(*primary.fill())
        assert [type(report) for report in taken] == [ChunkTaken] * len(taken)
        assert (ended, settled) == (FillEnded(5), Settled(primary.store.position))
        transactions = []
        apply_all = Replica.apply_all

        def counted(replica, records):
            transactions.append(len(records))
            apply_all(replica, records)

        Replica.apply_all = counted
        try:
            assert await copy.take(*primary.commit(20)) == [Stored(primary.store.position)]
        finally:
            Replica.apply_all = apply_all
        assert transactions == [20]
        assert copy.position == primary.store.position

    run(story)


def test_a_record_that_is_there_is_confirmed_again(run):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        records = primary.commit(5)
        await copy.take(*records)
        assert await copy.take(*records[2:]) == [Stored(primary.store.position)]
        assert await copy.take(*records[3:], *primary.commit(2)) == [Stored(primary.store.position)]

    run(story)


def test_a_record_that_does_not_follow_is_told_once_and_again_after_a_while(run, monkeypatch):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        first, *later = primary.commit(5)
        assert await copy.take(later[0]) == [Strayed(needs_fill=False)]
        assert await copy.take(*later[1:]) == []
        monkeypatch.setattr(replica_writer, "STRAYED_SECONDS", 0.0)
        assert await copy.take(later[-1]) == [Strayed(needs_fill=False)]
        assert await copy.take(first, *later) == [Stored(primary.store.position)]

    run(story)


def test_a_record_that_is_none_asks_for_a_fill(run):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        (record,) = primary.commit()
        assert await copy.take(record._replace(record=b"no record")) == [Strayed(needs_fill=True)]
        assert await copy.take(record) == [Stored(primary.store.position)]

    run(story)


def test_the_copy_that_is_there_stays_until_a_fill_is_whole(run):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        before = copy.position
        primary.commit(5)
        begin, first, *rest, end = primary.fill(6)
        assert await copy.take(begin, first) == [ChunkTaken(6, 1)]
        record = primary.commit()
        refused, *others = await copy.take(*record, *rest, end)
        assert (type(refused), others) == (FillEnded, [Settled(before)])
        assert refused.reason  # a chunk was read before the record, and came after it
        assert copy.position == before
        await copy.take(*primary.fill(7))
        assert copy.position == primary.store.position

    run(story)


def test_a_fill_whose_beginning_was_not_taken_is_refused_once(run):
    async def story(primary, copy):
        _, *rest = primary.fill(8)
        assert await copy.take(*rest) == [FillEnded(8, "its beginning was not taken"), Settled(None)]
        assert copy.position is None

    run(story)


def test_a_fill_of_a_primary_that_was_replaced_does_not_count(run):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        before = copy.position
        primary.commit()
        copy.writer.may_end = lambda end: False
        *_, refused, settled = await copy.take(*primary.fill(9))
        assert "another machine" in refused.reason
        assert settled == Settled(before)
        assert copy.position == before

    run(story)


def test_while_the_disk_is_full_all_waits(run, monkeypatch):
    monkeypatch.setattr(replica_writer, "FULL_RETRY_SECONDS", 0.01)

    async def story(primary, copy):
        await copy.take(*primary.fill())
        apply_all, refused = Replica.apply_all, []

        def full(replica, records):
            if len(refused) < 3:
                refused.append(len(records))
                raise StoreFullError("full")
            apply_all(replica, records)

        monkeypatch.setattr(Replica, "apply_all", full)
        assert await copy.take(*primary.commit(4)) == [Stored(primary.store.position)]
        assert refused == [4, 4, 4]
        assert copy.writer.waiting_bytes == 0

    run(story)


def test_a_disk_that_fails_is_told(run, tmp_path):
    async def story(primary, copy):
        (tmp_path / "copy").mkdir()
        with Store.open(tmp_path / "copy", "b", epoch=1):  # somebody else has it
            (report,) = await copy.take(*primary.commit())
        assert isinstance(report, WriterFailed)
        assert "held by another process" in report.reason

    run(story)


def test_what_waits_is_dropped_when_it_is_closed(run):
    async def story(primary, copy):
        await copy.take(*primary.fill())
        for record in primary.commit(50):
            copy.writer.add(record)
        began = time.monotonic()
        await copy.writer.close()
        assert time.monotonic() - began < 30
        copy.writer.add(primary.commit()[0])
        assert copy.writer._jobs == []

    run(story)


def test_positions_of_other_runs_are_not_there():
    assert replica_writer._is_there(Position(7, 3), Position(7, 3))
    assert not replica_writer._is_there(Position(7, 4), Position(7, 3))
    assert not replica_writer._is_there(Position(6, 2), Position(7, 3))
