"""Commits, records and chunks in every order that the rules allow: a replica ends with what its primary has."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.errors import AstrayError, RecordError, StoreFullError
from pleach.server.storage import fill as fill_module
from pleach.server.storage.database import BYTES_MIN
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store
from support.standby.random_batches import RandomBatches
from support.thorough import FACTOR

EPOCH = 3
PAYLOAD_BYTES = 100_000  # the largest, where a quota is to be exceeded
STORIES = 200 * FACTOR
MEMORY = Path("/dev/shm")  # a file system without a disk, where there is one: these tests sync a lot


class Story:
    """A primary, its replica, and the stream between them, of which any part may still be under way."""

    def __init__(self, folder, stream, *, bytes_max=None, payload_bytes=40):
        self.folder = folder
        self.stream = stream
        self.store = Store.open(folder / "primary", "b", epoch=EPOCH, bytes_max=bytes_max)
        self.store.begin_run(9)
        self.store.on_record = lambda *record: self.sent.append(record)
        self.batches = RandomBatches(stream, EPOCH, payload_bytes=payload_bytes)
        self.sent = []  # records, chunks, and the end of a fill, in order
        self.fill = None
        self.replica = Replica.open(folder / "replica", "b")

    def close(self):
        self.store.close()
        self.replica.close()

    # Steps ---------------------------------------------------------------------------------------------------

    def commit(self):
        self.batches.commit_to(self.store)

    def begin_fill(self):
        """All that is under way goes into nowhere, as with a connection that breaks."""
        self.sent.clear()
        self.replica.begin_fill()
        self.fill = self.store.fill()

    def read_chunk(self):
        if self.fill is None:
            return
        chunk = self.fill.next_chunk()
        self.sent.append(chunk or self.store.position)
        if chunk is None:
            self.fill = None

    def deliver(self):
        """One thing, or a group of records."""
        if not self.sent:
            return
        head = self.sent.pop(0)
        if isinstance(head, bytes):
            self.replica.take(head)
        elif len(head) == 2:
            self.replica.end_fill(head)
        elif self.replica.position is not None or self.replica.is_filling:
            group = [head]
            while self.sent and not isinstance(self.sent[0], bytes) and len(self.sent[0]) == 3 and self.chance(0.5):
                group.append(self.sent.pop(0))
            self.replica.apply_all(group)

    def restart(self):
        """Of the replica: a fill that is under way is over."""
        was_filling = self.replica.is_filling
        self.replica.close()
        self.replica = Replica.open(self.folder / "replica", "b")
        assert self.replica.damage == ""
        if was_filling:
            self.begin_fill()

    def chance(self, share):
        return self.stream.random() < share

    # Judgement -----------------------------------------------------------------------------------------------

    def finish(self):
        while self.fill is not None:
            self.read_chunk()
        while self.sent:
            self.deliver()
        if self.replica.position is None:
            self.begin_fill()
            self.finish()

    def compare(self):
        expected = self.store.load(), self.store.made_with({}), self.store.epoch, self.store.position
        assert self.replica.position == self.store.position
        self.replica.close()
        with Store.open(self.folder / "replica", "b", epoch=99) as copy:
            assert (copy.load(), copy.made_with({}), copy.epoch, copy.position) == expected
            waiting = {peer: each for peer, each in self.store._outboxes._peers.items() if each.is_on_disk}
            assert copy._outboxes._peers == waiting
            assert copy._outboxes._unconfirmed == self.store._outboxes._unconfirmed
            assert (copy.journal_length, copy.journal_bytes) == (self.store.journal_length, self.store.journal_bytes)
        self.replica = Replica.open(self.folder / "replica", "b")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(fill_module, "CHUNK_ROWS_MAX", 3)
    monkeypatch.setattr(fill_module, "CHUNK_BYTES", 300)


STEPS = ("commit", "read_chunk", "deliver", "begin_fill", "restart")


def told(story, steps):
    for step in steps:
        getattr(story, step)()
    story.finish()
    story.compare()


@pytest.mark.parametrize("part", range(4))
def test_random_orders_of_commits_records_and_chunks(folder, small_chunks, part):
    fills = 0
    for seed in range(part, STORIES, 4):
        stream = Random(seed)
        weights = (stream.choice((3, 6)), stream.choice((2, 8)), stream.choice((3, 8)), 0.2, 0.1)
        story = Story(folder / str(seed), stream)
        try:
            told(story, ["commit"] * stream.randrange(30) + ["begin_fill"])
            story.begin_fill()
            told(story, stream.choices(STEPS, weights, k=stream.randrange(100)))
            fills += story.replica.position is not None
        finally:
            story.close()
    assert fills == STORIES // 4


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(STEPS), max_size=60))
def test_any_order_of_commits_records_and_chunks(stream, steps):
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill_module, "CHUNK_ROWS_MAX", 2)
        story = Story(Path(folder), stream)
        try:
            told(story, ["commit", "begin_fill", *steps])
        finally:
            story.close()


@pytest.mark.parametrize("seed", range(20 * FACTOR))
def test_a_primary_that_runs_full_leads_astray_at_most(folder, small_chunks, monkeypatch, seed):
    """Records that were handed out and not written, with and without a fill: never a wrong row, and a fill mends it."""
    monkeypatch.setattr(fill_module, "CHUNK_BYTES", 30_000)
    stream = Random(seed)
    story = Story(folder, stream, bytes_max=BYTES_MIN, payload_bytes=PAYLOAD_BYTES)
    full = astray = 0
    try:
        story.begin_fill()
        for step in stream.choices(STEPS[:3], (5, 3, 9), k=400):
            try:
                getattr(story, step)()
            except StoreFullError:
                full += 1
                story.batches = recovered(story)
            except AstrayError:
                astray += 1
                story.begin_fill()
            except RecordError:
                pytest.fail("a record that follows fits")
        while story.fill or story.sent or story.replica.position != story.store.position:
            try:
                story.finish()
                if story.replica.position != story.store.position:  # the last record of all was not written
                    story.begin_fill()
            except AstrayError:
                story.begin_fill()
        story.compare()
    finally:
        story.close()
    assert full > 0


def recovered(story):
    """The endpoint goes on as after a crash: from what is on disk."""
    batches = RandomBatches(story.stream, EPOCH, payload_bytes=PAYLOAD_BYTES)
    batches.resume(story.store.load())
    return batches
