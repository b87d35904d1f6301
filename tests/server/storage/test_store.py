"""The store by itself: what it keeps, whom it refuses, and how it fails."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count as count_from
from itertools import islice, repeat
from pathlib import Path

import pytest

from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued, Saved
from pleach.core.links.session import SessionState
from pleach.errors import StoreBrokenError, StoreDamagedError, StoreError, StoreFullError
from pleach.server.storage.database import BYTES_MIN, CHECKPOINT_BYTES, DATABASE, LOCK, VERSION
from pleach.server.storage.store import Store

KILOBYTE = b"k" * 1_024
EPOCH = 7


def batch(*, journal=(), queued=(), **progress):
    """`peer=(peer_epoch, received, first)`."""
    noted = {peer: Progress(EPOCH, *values) for peer, values in progress.items()}
    return Batch.empty()._replace(journal=list(journal), queued=[Queued(*q) for q in queued], progress=noted)


def fanned_out(sequence, payload, peers):
    """The payload, queued for all; each confirms nothing."""
    noted = dict.fromkeys(peers, Progress(EPOCH, 1, 0, 1))
    queued = [Queued(peer, sequence, payload) for peer in peers]
    return Batch.empty()._replace(queued=queued, progress=noted)


def count_rows(directory, table="outbox"):
    """How many rows a closed store has."""
    sql = sqlite3.connect(directory / DATABASE)
    try:
        return sql.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        sql.close()


def open_files():
    """Paths of all files that this process has open."""
    return {str(link.readlink()) for link in [*Path("/proc/self/fd").iterdir()] if link.is_symlink()}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as opened:
        yield opened


# What it keeps -------------------------------------------------------------------------------------------------


def test_a_new_store_is_empty(store):
    assert store.load() == Saved(None, [], {})
    assert (store.name, store.epoch, store.journal_length) == ("b", EPOCH, 0)


def test_the_epoch_is_that_of_the_birth(tmp_path):
    Store.open(tmp_path / "deep" / "er", "b", epoch=5).close()
    with Store.open(tmp_path / "deep" / "er", "b", epoch=6) as store:
        assert store.epoch == 5


def test_a_batch_is_kept_whole_and_in_order(tmp_path):
    journal = [Journalled("a", b"m1", 1.5), Journalled("c", None, 0.1 + 0.2)]
    queued = [("c", 1, b"x"), ("a", 1, b"x"), ("c", 2, b"y"), ("c", 3, b"x")]
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(journal=journal, queued=queued, c=(3, 0, 1), a=(4, 9, 1)))
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        saved = store.load()
        assert store.journal_length == 2
    assert saved.state is None
    assert saved.journal == journal
    assert list(saved.sessions.items()) == [
        ("c", SessionState(EPOCH, 3, 0, 1, [b"x", b"y", b"x"])),
        ("a", SessionState(EPOCH, 4, 9, 1, [b"x"])),
    ]


def test_equal_payloads_for_one_peer_are_confirmed_one_by_one(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(queued=[("a", 1, b"x"), ("a", 2, b"y"), ("a", 3, b"x")], a=(1, 0, 1)))
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(a=(1, 0, 3)))
        assert store.load().sessions["a"].outbox == [b"x"]
    assert count_rows(tmp_path) == 1


def test_confirmed_payloads_go(store):
    store.commit(batch(queued=[("a", n, b"p%d" % n) for n in range(1, 6)], a=(1, 0, 1)))
    store.commit(batch(a=(1, 2, 4)))
    assert store.load().sessions["a"] == SessionState(EPOCH, 1, 2, 4, [b"p4", b"p5"])
    store.commit(batch(queued=[("a", 6, b"p6")], a=(1, 2, 6)))
    assert store.load().sessions["a"] == SessionState(EPOCH, 1, 2, 6, [b"p6"])


def test_what_was_queued_for_a_former_life_is_void(tmp_path):
    """The peer is reborn in the very batch that still queued something for it."""
    store = Store.open(tmp_path, "b", epoch=EPOCH)
    store.commit(batch(queued=[("a", 1, b"old"), ("a", 2, b"old")], a=(1, 5, 1)))
    store.commit(batch(queued=[("a", 3, b"old"), ("a", 4, b"new")], a=(2, 0, 4)))
    assert store.load().sessions["a"] == SessionState(EPOCH, 2, 0, 4, [b"new"])
    store.commit(batch(a=(2, 0, 5)))
    store.close()
    assert count_rows(tmp_path) == 0


def test_confirmations_may_go_ahead_of_a_batch_that_is_held(store):
    """While a disk is full, a node writes what was confirmed; the batch that it holds says less, and comes later."""
    store.commit(batch(queued=[("a", n, b"p%d" % n) for n in range(1, 5)], a=(1, 0, 1)))
    held = batch(queued=[("a", 5, b"p5")], a=(1, 1, 2))
    store.commit(batch(a=(1, 0, 4)))
    store.commit(held)
    assert store.load().sessions["a"] == SessionState(EPOCH, 1, 1, 4, [b"p4", b"p5"])


def test_a_payload_for_many_is_stored_once_until_the_last_confirms(tmp_path):
    peers = [f"p{n}" for n in range(100)]
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(fanned_out(1, KILOBYTE, peers))
    assert count_rows(tmp_path) == 1
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:  # who waits for what is found again
        store.commit(batch(**dict.fromkeys(peers[1:], (1, 0, 2))))
        assert store.load().sessions["p0"].outbox == [KILOBYTE]
        assert store.load().sessions["p1"].outbox == []
    assert count_rows(tmp_path) == 1
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(p0=(1, 0, 2)))
    assert count_rows(tmp_path) == 0


def test_a_snapshot_takes_the_place_of_the_journal(store):
    store.commit(batch(journal=[Journalled("a", b"m1", 0.0)], a=(1, 1, 1)))
    store.snapshot(b"state 1")
    assert store.load()[:2] == (b"state 1", [])
    store.commit(batch(journal=[Journalled("a", b"m2", 0.0)], a=(1, 2, 1)))
    assert (store.load()[:2], store.journal_length) == ((b"state 1", [Journalled("a", b"m2", 0.0)]), 1)
    store.commit(batch(journal=[Journalled("a", b"m3", 0.0)], a=(1, 3, 1)), b"state 3")
    assert (store.load()[:2], store.journal_length) == ((b"state 3", []), 0)
    assert store.load().sessions["a"].received == 3


def test_large_numbers_and_payloads_survive(store):
    nanoseconds, payload = 1_790_000_000_123_456_789, bytes(range(256)) * 16_384
    store.commit(batch(queued=[("a", 1, payload), ("a", 2, b"")], a=(nanoseconds, 2**53 + 1, 1)))
    assert store.load().sessions["a"] == SessionState(EPOCH, nanoseconds, 2**53 + 1, 1, [payload, b""])


def test_the_database_stays_small_while_events_pass_through(store):
    """The log is copied in time, and freed pages are used again."""
    store.commit(batch(a=(1, 0, 1)))
    rounds = 3 * CHECKPOINT_BYTES // (64 * len(KILOBYTE))
    for n in range(rounds):
        queued = [("a", n * 64 + i, b"%6d" % i + KILOBYTE) for i in range(1, 65)]
        store.commit(batch(queued=queued, a=(1, 0, n * 64 + 1)))
    log = store.path.with_name(f"{DATABASE}-wal")
    assert store.path.stat().st_size < 1_048_576
    assert log.stat().st_size < 3 * CHECKPOINT_BYTES


def test_any_thread_may_commit(store):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: store.commit(batch(journal=[Journalled("a", b"%d" % n, 0.0)])), range(40)))
    assert sorted(int(entry.payload) for entry in store.load().journal) == list(range(40))
    assert store.journal_length == 40


# Whom it refuses -----------------------------------------------------------------------------------------------


def test_a_store_has_one_owner(tmp_path, store):
    with pytest.raises(StoreError, match=LOCK):
        Store.open(tmp_path, "b", epoch=EPOCH)


def test_another_process_is_refused_too(tmp_path, store):
    script = "import sys; from pleach.server.storage.store import Store; Store.open(sys.argv[1], 'b', epoch=1)"
    child = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "held by another process" in child.stderr


def test_a_refused_opening_leaves_no_lock(tmp_path):
    Store.open(tmp_path, "b", epoch=EPOCH).close()
    with pytest.raises(StoreError, match="belongs to b, not to c"):
        Store.open(tmp_path, "c", epoch=EPOCH)
    Store.open(tmp_path, "b", epoch=EPOCH).close()


def test_a_newer_version_is_refused(tmp_path):
    Store.open(tmp_path, "b", epoch=EPOCH).close()
    sql = sqlite3.connect(tmp_path / DATABASE)
    sql.execute(f"PRAGMA user_version = {VERSION + 1}")
    sql.close()
    with pytest.raises(StoreError, match=f"version {VERSION + 1}, this Pleach knows {VERSION}"):
        Store.open(tmp_path, "b", epoch=EPOCH)


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path):
    sql = sqlite3.connect(tmp_path / DATABASE)
    sql.execute("CREATE TABLE mine (x)")
    sql.close()
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(StoreError, match="not a store of Pleach"):
        Store.open(tmp_path, "b", epoch=EPOCH)
    assert (tmp_path / DATABASE).read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"all sorts of things" * 1_000)
    with pytest.raises(StoreError, match=r"not a database.*Move the folder away"):
        Store.open(tmp_path, "b", epoch=EPOCH)


@pytest.mark.parametrize("begun", ["", "PRAGMA journal_mode = WAL"])
def test_a_creation_that_a_crash_cut_short_is_begun_anew(tmp_path, begun):
    sql = sqlite3.connect(tmp_path / DATABASE)
    sql.execute(begun)
    sql.close()
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.load() == Saved(None, [], {})


@pytest.mark.parametrize("page", [1, 2, 5, 8, 40])
def test_a_damaged_store_is_refused_with_a_remedy(tmp_path, page):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        queued = [("a", n, b"%6d" % n + KILOBYTE) for n in range(1, 200)]
        store.commit(batch(journal=[Journalled("a", b"m", 0.0)], queued=queued, a=(1, 0, 1)))
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(page * 4_096)
        file.write(b"\xa5" * 4_096)
    with pytest.raises(StoreError, match="Move the folder away"), Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.load()


def test_an_outbox_with_a_gap_is_damaged(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(queued=[("a", n, b"%d" % n) for n in (1, 2, 3)], a=(1, 0, 1)))
    sql = sqlite3.connect(tmp_path / DATABASE)
    sql.execute("DELETE FROM outbox WHERE id = 2")
    sql.commit()
    sql.close()
    with pytest.raises(StoreDamagedError, match="table outbox: 3 rows are expected, 2 found"):
        Store.open(tmp_path, "b", epoch=EPOCH)


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="give a data folder"):
        Store.open(tmp_path / "file" / "store", "b", epoch=EPOCH)


def test_a_quota_must_leave_room_to_work(tmp_path):
    with pytest.raises(StoreError, match="too small"):
        Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN - 1)


# How it fails --------------------------------------------------------------------------------------------------


def commit_until(error, store, batches):
    """Commits until one is answered with the error; returns how many were taken."""
    for count, each in enumerate(islice(batches, 10_000)):
        try:
            store.commit(each)
        except error:
            return count
    raise AssertionError("all were taken")


def numbered(start, size):
    """Payloads for peer a, each with its number."""
    return (batch(queued=[("a", n, b"%8d" % n + b"." * size)]) for n in count_from(start))


def filled(store, sizes=(30_000, 1_000)):
    """Fills the quota with payloads of each size in turn; returns the last sequence that went in."""
    store.commit(batch(a=(1, 0, 1)))
    last = 0
    for size in sizes:
        last += commit_until(StoreFullError, store, numbered(last + 1, size))
    return last


def test_a_full_store_has_changed_nothing_and_takes_confirmations(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        last = filled(store)
        assert last > 30
        before = store.load()
        large = batch(journal=[Journalled("a", b"m", 0.0)], queued=[("a", last + 1, KILOBYTE * 64)], a=(1, 1, 2))
        with pytest.raises(StoreFullError, match="quota of 1,048,576 bytes"):
            store.commit(large)
        assert store.load() == before
        assert store.journal_length == 0
        store.commit(batch(a=(1, 0, last - 3)))
        assert len(store.load().sessions["a"].outbox) == 4
        store.commit(large)
        assert store.load().sessions["a"].outbox[-1] == KILOBYTE * 64
        assert store.load().sessions["a"].received == 1
    assert (tmp_path / DATABASE).stat().st_size <= BYTES_MIN


def test_what_is_free_shrinks_and_comes_back(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        at_first = store.bytes_free()
        last = filled(store)
        when_full = store.bytes_free()
        store.commit(batch(a=(1, 0, last + 1)))
        assert BYTES_MIN * 0.9 < at_first < BYTES_MIN
        assert when_full < 128 * 1_024
        assert store.bytes_free() > at_first * 0.95


def test_the_reserve_lets_many_links_note_their_progress_when_full(tmp_path):
    """Larger numbers take more room, and confirmations of one recipient of many free none."""
    peers = [f"peer-{n}" for n in range(500)]
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        store.commit(fanned_out(1, KILOBYTE, peers))
        filled(store, sizes=(30_000, 1_000, 100, 10))  # to the last byte
        progress = dict.fromkeys(peers[1:], Progress(EPOCH, 2**60, 2**60, 2))
        store.commit(Batch.empty()._replace(progress=progress))
        assert store.load().sessions["peer-499"] == SessionState(EPOCH, 2**60, 2**60, 2, [])


def test_a_full_journal_gives_way_to_a_snapshot(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        commit_until(StoreFullError, store, repeat(batch(journal=[Journalled("a", KILOBYTE * 16, 0.0)])))
        store.snapshot(b"state" * 100_000)
        store.snapshot(b"STATE" * 110_000)  # the old one makes room for the new one
        assert store.load()[:2] == (b"STATE" * 110_000, [])


@contextmanager
def files_of_at_most(size):
    """Writes beyond fail with EFBIG in this process: to SQLite, that is a disk that fails (not one that is full)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fails_is_not_asked_again(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(queued=[("a", 1, b"safe")], a=(1, 0, 1)))
        with files_of_at_most(256 * 1_024), pytest.raises(StoreBrokenError, match="disk I/O error"):
            store.commit(batch(queued=[("a", 2, KILOBYTE * 512)]))
        with pytest.raises(StoreBrokenError, match="check the disk"):
            store.commit(batch(a=(1, 0, 2)))
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.load().sessions["a"] == SessionState(EPOCH, 1, 0, 1, [b"safe"])


def test_a_checkpoint_that_fails_is_not_passed_over_in_silence(tmp_path):
    """The log has room, the database has not: what is committed is in the log, and is there after a fresh start."""
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.commit(batch(a=(1, 0, 1)))
        with files_of_at_most(2 * CHECKPOINT_BYTES):
            taken = commit_until(StoreBrokenError, store, numbered(1, 16_000))
            with pytest.raises(StoreBrokenError):
                store.commit(batch())
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        outbox = store.load().sessions["a"].outbox
    assert [int(payload[:8]) for payload in outbox] == list(range(1, taken + 2)), (
        "the last was written, only not copied"
    )


def test_an_endpoint_of_another_life_is_a_mistake(store):
    with pytest.raises(AssertionError, match="another epoch"):
        store.commit(Batch.empty()._replace(progress={"a": Progress(EPOCH + 1, 0, 0, 1)}))


def test_a_batch_that_cannot_be_written_leaves_nothing(store):
    before = store.load()
    with pytest.raises(OverflowError):
        store.commit(batch(queued=[("a", 1, b"x")], a=(1, 0, 1), c=(1, 2**64, 1)))
    assert store.load() == before
    store.commit(batch(queued=[("a", 1, b"y")], a=(1, 0, 1)))
    assert store.load().sessions == {"a": SessionState(EPOCH, 1, 0, 1, [b"y"])}


# What comes before a state ---------------------------------------------------------------------------------------


def test_batches_before_a_state_are_written_with_it_and_their_journals_need_no_room(tmp_path):
    """A journal that does not fit must not keep the state from taking its place."""
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        commit_until(StoreFullError, store, repeat(batch(journal=[Journalled("a", KILOBYTE * 16, 0.0)])))
        before = [
            batch(
                journal=[Journalled("a", KILOBYTE * 512, 0.0)],
                queued=[("a", 1, b"x"), ("c", 1, b"x")],
                a=(1, 1, 1),
                c=(1, 0, 1),
            ),
            batch(journal=[Journalled("a", KILOBYTE * 512, 0.0)], queued=[("a", 2, b"y")], a=(1, 2, 2)),
        ]
        store.commit(batch(queued=[("a", 3, b"z")], a=(1, 3, 2)), b"state", before=before)
        expected = Saved(
            b"state",
            [],
            {"a": SessionState(EPOCH, 1, 3, 2, [b"y", b"z"]), "c": SessionState(EPOCH, 1, 0, 1, [b"x"])},
        )
        assert store.load() == expected
        assert (store.journal_length, store.journal_bytes, store.state_bytes) == (0, 0, 5)
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.load() == expected


def test_a_state_that_does_not_fit_leaves_all_as_it_was(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH, bytes_max=BYTES_MIN) as store:
        store.commit(batch(queued=[("a", 1, b"x")], a=(1, 1, 1)))
        saved = store.load()
        before = [batch(queued=[("a", 2, b"y")], a=(1, 2, 2)), batch(queued=[("new", 1, b"y")], new=(1, 1, 1))]
        for _ in range(2):
            with pytest.raises(StoreFullError):
                store.commit(batch(), KILOBYTE * 2_048, before=before)
            assert store.load() == saved
        store.commit(batch(), b"state", before=before)
        store.commit(batch(a=(1, 2, 3), new=(1, 1, 2)))
    assert count_rows(tmp_path) == 0
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.load().sessions == {"a": SessionState(EPOCH, 1, 2, 3, []), "new": SessionState(EPOCH, 1, 1, 2, [])}


def test_what_large_statements_need_stands_in_no_other_folder(tmp_path):
    """A spilled file would hold events where nobody expects them, and stay open."""
    others = [sqlite3.connect(tmp_path / "other.db", isolation_level=None)]
    with Store.open(tmp_path / "b", "b", epoch=EPOCH) as store:
        spilled = []
        for sql in (store._database.sql, *others):
            before = open_files()
            sql.execute("CREATE TEMP TABLE scratch (bytes)")
            sql.executemany("INSERT INTO scratch VALUES (?)", repeat((KILOBYTE * 64,), 200))
            spilled.append(sorted(open_files() - before))
    others[0].close()
    ours, usual = spilled
    assert not any("etilqs" in path for path in ours)
    assert any("etilqs" in path for path in usual), "without the setting there is a file"
