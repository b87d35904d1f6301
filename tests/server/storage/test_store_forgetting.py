"""Sessions that are forgotten leave the disk: their row, what waited for them alone, and no room for confusion."""

import sqlite3

import pytest

from pleach.core.links.endpoint import Batch, Progress, Queued
from pleach.core.links.session import SessionState
from pleach.server.storage.database import DATABASE
from pleach.server.storage.store import Store

EPOCH = 7


def queued_for(*peers, payload, sequence=1):
    noted = dict.fromkeys(peers, Progress(EPOCH, 1, 0, 1))
    return Batch.empty()._replace(queued=[Queued(peer, sequence, payload) for peer in peers], progress=noted)


def forgetting(*peers):
    return Batch.empty()._replace(forgotten=list(peers))


def rows(directory, table):
    sql = sqlite3.connect(directory / DATABASE)
    try:
        return sql.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        sql.close()


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as opened:
        yield opened


def test_the_row_goes_and_what_waited_for_it_alone(store, tmp_path):
    store.commit(queued_for("gone", payload=b"its own"))
    store.commit(queued_for("here", payload=b"for here"))
    store.commit(Batch.empty()._replace(queued=[Queued(p, 2, b"shared") for p in ("gone", "here")]))
    assert forgetting("gone").changes_disk
    store.commit(forgetting("gone"))
    saved = store.load()
    assert saved.sessions.keys() == {"here"}
    store.close()
    assert (rows(tmp_path, "sessions"), rows(tmp_path, "outbox")) == (1, 2)


@pytest.fixture
def shared(store):
    """A payload for two, of whom the one with the highest number is forgotten."""
    store.commit(queued_for("here", "gone", payload=b"shared"))
    store.commit(forgetting("gone"))
    return store


def test_what_others_wait_for_stays_also_after_a_restart(shared, tmp_path):
    kept = {"here": SessionState(EPOCH, 1, 0, 1, [b"shared"])}
    assert shared.load().sessions == kept
    shared.close()
    with Store.open(tmp_path, "b", epoch=EPOCH) as again:
        assert again.load().sessions == kept


def test_a_later_session_of_the_same_number_does_not_inherit(shared, tmp_path):
    """Numbers of sessions are given anew after a restart, and rows of the outbox still list the old one."""
    floor = shared.load().sequence_floor
    assert floor == 3  # 1 was sent: who has received it offers to go on at 2
    shared.close()
    with Store.open(tmp_path, "b", epoch=EPOCH) as again:
        progress = {"new": Progress(EPOCH, 9, 0, floor)}
        again.commit(Batch.empty()._replace(queued=[Queued("new", floor, b"first")], progress=progress))
        assert again.load().sessions["new"] == SessionState(EPOCH, 9, 0, floor, [b"first"])
        again.close()
    with Store.open(tmp_path, "b", epoch=EPOCH) as last:
        assert last.load().sessions["new"].outbox == [b"first"]
        last.commit(Batch.empty()._replace(progress={"here": Progress(EPOCH, 1, 0, 2)}))
        last.close()
    assert rows(tmp_path, "outbox") == 1


def test_the_floor_never_sinks(store):
    store.commit(queued_for("far", payload=b"x"))
    store.commit(Batch.empty()._replace(progress={"far": Progress(EPOCH, 1, 0, 2)}))
    store.commit(queued_for("near", payload=b"y"))
    store.commit(forgetting("far"))
    highest = store.load().sequence_floor
    store.commit(forgetting("near"))
    assert store.load().sequence_floor == highest == 3


def test_somebody_that_was_never_written_down_is_no_trouble(store):
    store.commit(forgetting("nobody"))
    assert store.load().sessions == {}
