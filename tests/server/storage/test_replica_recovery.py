"""A broker recovered from a replica is the one that runs at the primary, after every record."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import pytest
from test_store_recovery import STEPS, Story, lasting, make_hub

from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store
from support.thorough import FACTOR

STORIES = 12 * FACTOR
MEMORY = Path("/dev/shm")  # a file system without a disk, where there is one


class ReplicatedStory(Story):
    """The hub's store has a replica, which is filled anew, and opened anew, now and then."""

    def __init__(self, directory, seed):
        self.runs = count(seed * 1_000 + 1)
        super().__init__(directory / "primary", seed)
        self.replica = Replica.open(directory / "replica", "hub")
        self.counts |= {"records": 0, "fills": 0}
        self.lead()
        self.fill()

    def lead(self):
        self.store.begin_run(next(self.runs))
        self.store.on_record = self.replicate

    def replicate(self, *record):
        self.replica.apply(*record)
        self.counts["records"] += 1

    def fill(self):
        self.replica.begin_fill()
        fill = self.store.fill()
        while (chunk := fill.next_chunk()) is not None:
            self.replica.take(chunk)
        self.replica.end_fill(fill.position)
        self.counts["fills"] += 1

    def crash(self):
        super().crash()
        self.lead()

    def compare(self):
        super().compare()
        if self.stream.random() < 0.1:
            self.fill()
        if self.stream.random() < 0.2:
            self.replica.close()
            with Store.open(self.replica.folder, "hub", epoch=99) as store:
                self.check(store)
            self.replica = Replica.open(self.replica.folder, "hub")
        else:
            self.check(Store(self.replica._database, self.replica._lock))  # as it lies there, while it is in use

    def check(self, copy):
        assert copy.position == self.store.position
        endpoint = make_hub(copy.epoch)
        endpoint.recover(copy.load())
        assert lasting(endpoint) == lasting(self.hub)

    def close(self):
        self.store.close()
        self.replica.close()


@pytest.mark.parametrize("part", range(4))
def test_an_endpoint_recovered_from_the_replica_equals_the_one_at_the_primary(part):
    counts = []
    for seed in range(part, STORIES, 4):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            story = ReplicatedStory(Path(folder), seed)
            try:
                for _ in range(STEPS):
                    story.step()
                story.commit()
            finally:
                story.close()
            counts.append(story.counts)
    assert sum(each["records"] for each in counts) > 20 * len(counts)
    assert sum(each["fills"] for each in counts) > len(counts)
    assert sum(each["crashes"] for each in counts) > 0
