"""The primary's side of a fill: how much is on its way, in which order, and what ends it."""

import asyncio
from random import Random

import pytest

from pleach.errors import StoreError
from pleach.server.standby import fill_sender
from pleach.server.standby.fill_sender import FillSender
from pleach.server.standby.messages import BrokerFiles, FillBegin, FillEnd, FillPart
from pleach.server.storage import fill as storage_fill
from pleach.server.storage.committer import DiskThread
from pleach.server.storage.store import Store
from support.live.tiny_broker import until
from support.standby.random_batches import RandomBatches

UNTAKEN = 3


class Sending:
    """A store of many chunks, with a fill from it."""

    def __init__(self, folder):
        self.disk = DiskThread(Store.open(folder, "b", epoch=1))
        self.disk.store.begin_run(7)
        self.batches = RandomBatches(Random(1), 1)
        self.commit(40)
        self.sent, self.failures = [], []
        self.fill = FillSender(
            "b", 5, self.disk, view=lambda: 2, send=self.sent.append, on_failed=lambda: self.failures.append(True)
        )

    def commit(self, count):
        for _ in range(count):
            self.batches.commit_to(self.disk.store)

    @property
    def parts(self):
        return [message.chunk for message in self.sent if isinstance(message, FillPart)]

    async def idle(self):
        """All that was to be read has been."""
        await until(lambda: self.fill.is_begun and not self.fill._is_reading)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(fill_sender, "UNTAKEN_MAX", UNTAKEN)
    monkeypatch.setattr(storage_fill, "CHUNK_ROWS_MAX", 2)

    def of(story):
        async def told():
            sending = Sending(tmp_path)
            try:
                sending.fill.begin(BrokerFiles(b"{}"))
                await sending.idle()
                await story(sending)
            finally:
                sending.disk.close()

        asyncio.run(asyncio.wait_for(told(), 60))

    return of


def test_no_more_is_on_its_way_than_the_replica_has_room_for(run):
    async def story(sending):
        assert isinstance(sending.sent[0], FillBegin)
        assert sending.parts == [1, 2, 3]
        sending.fill.note_taken(2)
        await sending.idle()
        assert sending.parts == [1, 2, 3, 4, 5]
        sending.fill.note_taken(1)  # comes late
        await sending.idle()
        assert sending.parts == [1, 2, 3, 4, 5]

    run(story)


def test_the_end_says_where_the_store_was_and_comes_once(run):
    async def story(sending):
        while not sending.fill.is_over:
            sending.fill.note_taken(sending.fill.sent)
            await until(lambda: not sending.fill._is_reading)
        assert sending.sent[-1] == FillEnd("b", 2, 5, sending.disk.store.position)
        sending.fill.note_taken(sending.fill.sent)
        assert [type(each) for each in sending.sent].count(FillEnd) == 1

    run(story)


def test_a_fill_that_is_given_up_sends_nothing_more(run):
    async def story(sending):
        sending.fill.note_taken(3)
        sending.fill.end()  # while a chunk is being read
        await sending.idle()
        assert sending.parts == [1, 2, 3]

    run(story)


def test_a_store_that_cannot_be_read_ends_the_fill_and_is_told(run, monkeypatch):
    async def story(sending):
        def broken():
            raise StoreError("the disk has failed")

        monkeypatch.setattr(sending.fill._source, "next_chunk", broken)
        sending.fill.note_taken(3)
        await until(lambda: sending.failures)
        assert sending.fill.is_over
        assert sending.parts == [1, 2, 3]

    run(story)
