"""A disk that is full or slow on purpose, for a while."""

import time

import pytest

from pleach.core.links.endpoint import Batch, Progress, Queued
from pleach.errors import StoreFullError
from pleach.server.storage.obstruction import Obstruction
from pleach.server.storage.store import Store

EPOCH = 7
LONG = 1_000.0


def queued(sequence):
    progress = {"a": Progress(EPOCH, 1, 0, 1)}
    return Batch.empty()._replace(queued=[Queued("a", sequence, b"x")], progress=progress)


def confirmed(first):
    return Batch.empty()._replace(progress={"a": Progress(EPOCH, 1, 0, first)})


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as opened:
        opened.commit(queued(1))
        yield opened


def test_a_full_disk_takes_what_deletes_and_refuses_what_grows(store):
    store.obstruct(Obstruction(is_full=True, delay=0.0, until=time.monotonic() + LONG))
    with pytest.raises(StoreFullError):
        store.commit(queued(2))
    assert store.load().sessions["a"].outbox == [b"x"]
    store.commit(confirmed(2))
    assert store.load().sessions["a"].outbox == []


def test_it_is_over_when_its_time_is(store):
    store.obstruct(Obstruction(is_full=True, delay=LONG, until=time.monotonic()))
    store.commit(queued(2))
    assert store.load().sessions["a"].outbox == [b"x", b"x"]


def test_a_slow_disk_takes_longer_for_each_commit(store):
    store.obstruct(Obstruction(is_full=False, delay=0.05, until=time.monotonic() + LONG))
    began = time.monotonic()
    store.commit(queued(2))
    assert time.monotonic() - began >= 0.05
