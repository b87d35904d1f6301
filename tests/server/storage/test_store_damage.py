"""A store that is damaged is refused, and says where; or the damage is where nothing is kept."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued
from pleach.errors import StoreDamagedError, StoreError
from pleach.server.storage.database import COMMITTED, DATABASE, LOCK
from pleach.server.storage.store import Store
from support.live.disk_damage import LOG, flip, random_bits
from support.thorough import FACTOR

FLIPS = 240 * FACTOR
COMMITS = 80
MADE_WITH = {"ordering": "causal", "routing": "covering"}
CHILD = """
import sys
from pleach.server.storage import database, store
from test_store_damage import MADE_WITH, commit

database.CHECKPOINT_BYTES = 400_000  # the log starts over while it is written
with store.Store.open(sys.argv[1], "b", epoch=1) as opened:
    opened.made_with(MADE_WITH)
    for number in range(1, 1_000_000):
        commit(opened, number)
        print(number, flush=True)
"""


def commit(store, number):
    """The same batch for the same number, in any process."""
    first = max(1, number - 20)
    batch = Batch.empty()._replace(
        journal=[Journalled("a", b"%d" % number, float(number))],
        queued=[Queued(peer, number, b"%d" % number + b"." * 600) for peer in ("a", "c")],
        progress={peer: Progress(1, 1, number, first) for peer in ("a", "c")},
    )
    store.commit(batch, b"%d" % number * 100 if number % 37 == 0 else None)


def content(directory):
    with Store.open(directory, "b", epoch=9) as store:
        return store.load(), store.made_with({}), store.epoch


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A data directory whose process was killed in the middle of its commits."""
    directory = tmp_path_factory.mktemp("killed") / "b"
    search = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )
    for _ in range(COMMITS):
        assert child.stdout.readline()
    child.kill()
    child.stdout.close()
    child.wait()
    return directory


@pytest.fixture(scope="module")
def acceptable(killed, tmp_path_factory):
    """What may be found: all that was confirmed, and perhaps the commit that was under way."""
    place = tmp_path_factory.mktemp("again")
    shutil.copytree(killed, place / "copy")
    last = content(place / "copy")[0].sessions["a"].received
    found = []
    for upto in (last - 1, last):
        with Store.open(place / str(upto), "b", epoch=1) as store:
            store.made_with(MADE_WITH)
            for number in range(1, upto + 1):
                commit(store, number)
        found.append(content(place / str(upto)))
    return found


def closed(directory, place):
    """All of it is in the database."""
    shutil.copytree(directory, place)
    Store.open(place, "b", epoch=9).close()
    return place


@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "closed"])
def test_whichever_bit_is_flipped_it_is_refused_or_does_no_harm(killed, acceptable, tmp_path, is_closed):
    original = closed(killed, tmp_path / "closed") if is_closed else killed
    outcomes = {"refused": 0, "harmless": 0}
    for name, bit in random_bits(original, Random(20), FLIPS):
        place = tmp_path / "damaged"
        shutil.copytree(original, place)
        flip(place / name, bit)
        try:
            assert content(place) in acceptable, f"bit {bit} of {name}"
            outcomes["harmless"] += 1
        except StoreError:
            outcomes["refused"] += 1
        shutil.rmtree(place)
    assert outcomes["refused"] > FLIPS // 3
    assert outcomes["harmless"] > 0


def test_a_log_that_is_cut_short_is_noticed(killed, tmp_path):
    """SQLite takes it for a transaction that a crash has interrupted, and says nothing."""
    shutil.copytree(killed, tmp_path / "b")
    flip(tmp_path / "b" / LOG, 8 * 6_000)  # in the second page of the log
    with pytest.raises(StoreDamagedError, match=r"confirmed commits are gone from its log\. Move the folder away"):
        Store.open(tmp_path / "b", "b", epoch=9)


def test_what_is_refused_is_left_as_it_is(killed, acceptable, tmp_path):
    """A disk or a cable may be sound again tomorrow: then everything is there."""
    place = tmp_path / "b"
    shutil.copytree(killed, place)
    flip(place / LOG, 8 * 6_000)
    log = (place / LOG).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreDamagedError):
            Store.open(place, "b", epoch=9)
        assert (place / LOG).read_bytes() == log
    flip(place / LOG, 8 * 6_000)
    assert content(place) in acceptable


def changed(directory, place, statement):
    closed(directory, place)
    sql = sqlite3.connect(place / DATABASE)
    sql.execute(statement)
    sql.commit()
    sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sql.close()
    return place


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE outbox SET payload = x'00' WHERE id = (SELECT max(id) FROM outbox)",
            r"table outbox, row \d+: the che",
        ),
        (
            "UPDATE outbox SET id = id + 1000 WHERE id = (SELECT max(id) FROM outbox)",
            r"table outbox, row 1\d+: the che",
        ),
        ("UPDATE sessions SET received = received - 1 WHERE id = 1", "table sessions, row 1: the checksum is wrong"),
        ("UPDATE node SET state = NULL", "table node, row b: the checksum is wrong"),
        ("DELETE FROM journal WHERE id = (SELECT max(id) FROM journal)", r"table journal: \d+ rows are expected, \d+"),
        ("DELETE FROM made_with WHERE key = 'routing'", "table made_with: 2 rows are expected, 1 found"),
        ("DELETE FROM sessions", "table sessions: 2 rows are expected, 0 found"),
        ("DELETE FROM ledger", "table ledger: 1 row is expected, 0 found"),
        ("UPDATE ledger SET number = 1", "table ledger, row 1: the checksum is wrong"),
        ("DROP TABLE outbox", "table outbox: columns id, recipients, .* are expected, none found"),
        ("ALTER TABLE made_with RENAME COLUMN value TO valve", "table made_with: columns key, value, checksum are exp"),
    ],
)
def test_the_table_and_the_row_are_named(killed, tmp_path, statement, told):
    with pytest.raises(StoreDamagedError, match=told):
        Store.open(changed(killed, tmp_path / "b", statement), "b", epoch=9)


def test_rows_that_have_changed_places_are_noticed(killed, tmp_path):
    swap = "UPDATE journal SET id = -id WHERE id <= 2"
    back = "UPDATE journal SET id = 3 + id WHERE id < 0"
    place = changed(killed, tmp_path / "b", swap)
    sql = sqlite3.connect(place / DATABASE)
    sql.execute(back)
    sql.commit()
    sql.close()
    with pytest.raises(StoreDamagedError, match="table journal, row 1: the checksum is wrong"):
        Store.open(place, "b", epoch=9)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (COMMITTED, f"{COMMITTED} is damaged: it is missing or empty"),
        (DATABASE, "it is empty, but pleach.committed knows"),
    ],
)
def test_a_file_that_is_missing_is_noticed(killed, tmp_path, name, told):
    place = closed(killed, tmp_path / "b")
    (place / name).unlink()
    with pytest.raises(StoreDamagedError, match=told):
        Store.open(place, "b", epoch=9)


def test_an_older_release_s_directory_is_refused_and_left_alone(tmp_path):
    sql = sqlite3.connect(tmp_path / DATABASE)
    sql.executescript("CREATE TABLE node (name TEXT); PRAGMA application_id = 0x504C4348; PRAGMA user_version = 4")
    sql.close()
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(
        StoreError, match=r"version 4, this Pleach knows 6: use the Pleach that wrote it, or let it run e"
    ):
        Store.open(tmp_path, "b", epoch=9)
    assert (tmp_path / DATABASE).read_bytes() == before
    assert not (tmp_path / COMMITTED).exists()


# Who may read it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with Store.open(tmp_path / "b", "b", epoch=1) as store:
            commit(store, 1)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys((DATABASE, LOG, COMMITTED, LOCK), 0o600)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700


def test_files_that_others_could_read_become_private(killed, tmp_path):
    shutil.copytree(killed, tmp_path / "b")
    for path in (tmp_path / "b").iterdir():
        path.chmod(0o644)
    with Store.open(tmp_path / "b", "b", epoch=9):
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()} == {0o600}
