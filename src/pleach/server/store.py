"""The store of one node: captured state, journal, sessions and outboxes, in one SQLite file.

    <directory>/pleach.db       and, while it is open, pleach.db-wal
    <directory>/pleach.lock     held (flock) by the process that has the store open; a crash lets go of it

Rule 1: a batch is one transaction, on the disk (fsync) when `commit` returns; a crash leaves all of it or nothing.
Rule 2: what is queued for many peers is stored once, in a row that lists its recipients, and the row goes with the last
        confirmation. `sessions.first` alone says what is confirmed.
Rule 3: a store that is full has changed nothing and stays usable. A store whose disk has failed is not used again:
        after a failed fsync the content is unknown, and a second one that succeeds proves nothing.

docs/decisions/0005-durability.md tells why, with measurements.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import BinaryIO, Self

import msgspec

from pleach.core.links.batch import PublisherMark
from pleach.core.links.endpoint import Batch, Journalled, Saved
from pleach.core.links.session import SessionState
from pleach.core.messages import Node
from pleach.errors import StoreBrokenError, StoreError, StoreFullError
from pleach.server.outboxes import OutboxChange, Outboxes, decode_recipients, encode_row

DATABASE, LOCK = "pleach.db", "pleach.lock"
APPLICATION = 0x504C_4348  # "PLCH" in the file's header: a store, and not some other database
VERSION = 4
PAGE_BYTES = 4_096
BYTES_MIN = 1_048_576  # the smallest quota: the schema, and room to work in
RESERVE_PAGES = 16  # of the quota, kept for batches that only confirm: they free more than they take
CHECKPOINT_BYTES = 4 * 1_048_576  # of log, about, before it is copied into the database
COMMIT_BYTES = 4 * PAGE_BYTES  # of log that a commit takes besides its payloads, about
LOG_BYTES_KEPT = 64 * 1_048_576  # the log's file is reused, not cut: on a full disk, confirmations find room in it

SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE node (name TEXT NOT NULL, epoch INTEGER NOT NULL, state BLOB);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY, peer TEXT NOT NULL, payload BLOB, now REAL NOT NULL, timer TEXT NOT NULL
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, peer TEXT NOT NULL,
    peer_epoch INTEGER NOT NULL, received INTEGER NOT NULL, first INTEGER NOT NULL
);
CREATE TABLE outbox (id INTEGER PRIMARY KEY, recipients BLOB NOT NULL, payload BLOB NOT NULL);
CREATE TABLE forgotten (sequence_floor INTEGER NOT NULL);
CREATE TABLE made_with (key TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
UPSERT_SESSION = """
INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
SET peer_epoch = excluded.peer_epoch, received = excluded.received, first = excluded.first
"""
# A store that is older has no such table, and needs none until it is told to heal.
SCHEMA_OF_SIGHTINGS = """
CREATE TABLE IF NOT EXISTS sightings (
    peer TEXT NOT NULL, publisher TEXT NOT NULL, after INTEGER NOT NULL,
    incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (peer, publisher, after)
) WITHOUT ROWID
"""
SETTLE_SIGHTINGS = "DELETE FROM sightings WHERE peer = ? AND after > 0 AND after < ?"
SELECT_JOURNAL = "SELECT peer, payload, now, timer FROM journal ORDER BY id"
INSERT_JOURNAL = "INSERT INTO journal (peer, payload, now, timer) VALUES (?, ?, ?, ?)"

REMEDY = "Move the folder away: the node then starts without memory, and its peers start over with it."


class Store:
    """Made by `Store.open`. May be used from any thread; one call at a time is at work, others wait for it."""

    def __init__(self, path: Path, lock: BinaryIO, sql: sqlite3.Connection, pages_max: int | None) -> None:
        self.path = path
        self._lock = lock
        self._sql = sql
        self._pages_max = pages_max
        self._turn = Lock()
        self._broken = ""  # why, once the disk has failed
        self._log_bytes = 0  # since the last checkpoint, about
        self.name: Node
        self.epoch: int
        self.journal_length: int
        self.name, self.epoch = sql.execute("SELECT name, epoch FROM node").fetchone()
        (self.journal_length,) = sql.execute("SELECT count(*) FROM journal").fetchone()
        self._outboxes = Outboxes.of(
            sql.execute("SELECT id, peer, first FROM sessions ORDER BY id"),
            sql.execute("SELECT id, recipients FROM outbox ORDER BY id"),
        )

    @classmethod
    def open(cls, directory: Path | str, name: Node, *, epoch: int, bytes_max: int | None = None) -> Self:
        """Open the store of node `name`, or create one for a node of this epoch.

        `bytes_max` bounds the database; the log beside it is small, but for the largest batch. Raises StoreError.
        """
        assert epoch > 0, "epoch 0 stands for a peer that was never met"
        if bytes_max is not None and bytes_max < BYTES_MIN:
            raise StoreError(f"a quota of {bytes_max:,} bytes is too small: give {BYTES_MIN:,} or more")
        path = Path(directory) / DATABASE
        with ExitStack() as opened, _translated(path):
            lock = opened.enter_context(_locked(path.parent))
            sql = opened.enter_context(closing(_connect(path)))
            if _is_new(sql, path):
                _create(sql, path, name, epoch)
            _check(sql, path, name)
            sql.execute(SCHEMA_OF_SIGHTINGS)
            store = cls(path, lock, sql, bytes_max // PAGE_BYTES if bytes_max else None)
            opened.pop_all()  # it stays open
        return store

    # Reading -------------------------------------------------------------------------------------------------

    def load(self) -> Saved:
        """All that was committed, as `Endpoint.recover` takes it over."""
        with self._turn, _translated(self.path):
            sql = self._sql
            (state,) = sql.execute("SELECT state FROM node").fetchone()
            (sequence_floor,) = sql.execute("SELECT sequence_floor FROM forgotten").fetchone()
            journal = [Journalled(*row) for row in sql.execute(SELECT_JOURNAL)]
            boxes: dict[int, dict[int, bytes]] = defaultdict(dict)
            for recipients, payload in sql.execute("SELECT recipients, payload FROM outbox ORDER BY id"):
                for session, sequence in decode_recipients(recipients):
                    boxes[session][sequence] = payload
            rows = sql.execute("SELECT id, peer, peer_epoch, received, first FROM sessions ORDER BY id").fetchall()
        sessions = {
            peer: SessionState(self.epoch, peer_epoch, received, first, self._in_order(peer, first, boxes[session]))
            for session, peer, peer_epoch, received, first in rows
        }
        return Saved(state, journal, sessions, sequence_floor)

    def sightings(self) -> list[PublisherMark]:
        """What was noted of each peer (witness.py)."""
        with self._turn, _translated(self.path):
            return [PublisherMark(*row) for row in self._sql.execute("SELECT * FROM sightings ORDER BY peer, after")]

    def _in_order(self, peer: Node, first: int, box: dict[int, bytes]) -> list[bytes]:
        unconfirmed = sorted(sequence for sequence in box if sequence >= first)
        if unconfirmed != list(range(first, first + len(unconfirmed))):
            raise StoreError(f"{self.path} is damaged: the outbox for {peer} has gaps. {REMEDY}")
        return [box[sequence] for sequence in unconfirmed]

    def made_with(self, values: Mapping[str, str]) -> dict[str, str]:
        """What the store was made with; a key that is new to it takes the value given."""
        with self._turn, _translated(self.path):
            self._sql.executemany("INSERT OR IGNORE INTO made_with VALUES (?, ?)", values.items())
            return dict(self._sql.execute("SELECT key, value FROM made_with ORDER BY key"))

    def bytes_free(self) -> int:
        """How much more fits, about: so that a node can say no before it is too late to write even that down."""
        if self._pages_max is None:
            return disk_usage(self.path.parent).free
        with self._turn, self._failures():
            (pages,) = self._sql.execute("PRAGMA page_count").fetchone()
            (unused,) = self._sql.execute("PRAGMA freelist_count").fetchone()
        return (self._pages_max - int(pages) + int(unused)) * PAGE_BYTES

    # Writing -------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, state: bytes | None = None) -> None:
        """Write a batch; it is on the disk when this returns.

        `state`, if given, is the machine's state right after the batch, and takes the place of the captured one and
        of the whole journal, this batch's too: for a machine that was changed by calls that no journal knows, and
        whenever the journal has become long.

        StoreFullError: nothing was written, and the endpoint is ahead of its disk. Commit this batch again before any
        later one, or go on as after a crash, with an endpoint recovered from `load()`.
        """
        assert all(progress.epoch == self.epoch for progress in batch.progress.values()), "an endpoint of another epoch"
        journal = batch.journal if state is None else []
        with self._turn:
            change = self._outboxes.plan(batch)
            with self._transaction(grows=bool(journal or change.rows or state)) as sql:
                sql.executemany("DELETE FROM outbox WHERE id = ?", [(row,) for row in change.finished])
                _forget(sql, change)
                sql.executemany(UPSERT_SESSION, change.sessions)
                sql.executemany("INSERT INTO outbox VALUES (?, ?, ?)", map(encode_row, change.rows))
                sql.executemany(INSERT_JOURNAL, map(_journal_row, journal))
                sql.executemany("INSERT OR REPLACE INTO sightings VALUES (?, ?, ?, ?, ?)", batch.sightings.seen)
                sql.executemany(SETTLE_SIGHTINGS, batch.sightings.settled)
                if state is not None:
                    _replace_state(sql, state)
            self._outboxes.apply(change)
            self.journal_length = 0 if state is not None else self.journal_length + len(journal)
            payloads = (state, *(entry.payload for entry in journal), *(row.payload for row in change.rows))
            self._log_bytes += COMMIT_BYTES + sum(len(payload) for payload in payloads if payload)
            self._checkpoint_when_due()

    def snapshot(self, state: bytes) -> None:
        """Replace captured state and journal by `state`: that of a machine all whose batches are committed."""
        self.commit(Batch.empty(), state)

    def _checkpoint_when_due(self) -> None:
        """SQLite would do this by itself, but in silence where an fsync fails."""
        if self._log_bytes < CHECKPOINT_BYTES:
            return
        with suppress(StoreFullError), self._failures():  # no room: all is in the log still, and the next one may do
            self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._log_bytes = 0

    # Failing -------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, *, grows: bool) -> Iterator[sqlite3.Connection]:
        with self._failures():
            if self._pages_max is not None:
                pages = self._pages_max - RESERVE_PAGES if grows else self._pages_max
                self._sql.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:  # SQLite may have rolled back itself
                    self._sql.execute("ROLLBACK")
                raise

    @contextmanager
    def _failures(self) -> Iterator[None]:
        if self._broken:
            raise StoreBrokenError(self._broken)
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                limit = f"quota of {self._pages_max * PAGE_BYTES:,} bytes" if self._pages_max else "disk"
                raise StoreFullError(
                    f"{self.path}: no room left ({limit}); it takes more once peers confirm"
                ) from error
            self._broken = f"{self.path}: {error}; check the disk, then start {self.name} again"
            raise StoreBrokenError(self._broken) from error

    # Closing -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._turn:
            with suppress(sqlite3.Error):  # all that was promised is on the disk already
                self._sql.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The file ------------------------------------------------------------------------------------------------------


def _locked(folder: Path) -> BinaryIO:
    """The folder's lock file, which is ours until it is closed; the system closes it for a process that dies."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; give a data folder that this user may write to") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreError(f"{path} is held by another process: stop that one, or use a folder of its own") from error
    return lock


def _connect(path: Path) -> sqlite3.Connection:
    sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # `Store` takes turns itself
    sql.execute("PRAGMA locking_mode = EXCLUSIVE")  # one process anyway, so no shared memory file is needed
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
    sql.execute("PRAGMA checkpoint_fullfsync = ON")
    sql.execute("PRAGMA wal_autocheckpoint = 0")
    sql.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
    return sql


def _is_new(sql: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; raises StoreError where it is neither that nor a store of ours."""
    (application,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and tables == 0:
        return True
    if application != APPLICATION:
        raise StoreError(f"{path} is a database, but not a store of Pleach: give another data folder")
    if version != VERSION:
        raise StoreError(f"{path} has version {version}, this Pleach knows {VERSION}: use the Pleach that wrote it")
    return False


def _create(sql: sqlite3.Connection, path: Path, name: Node, epoch: int) -> None:
    sql.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    sql.execute("PRAGMA journal_mode = WAL")
    sql.executescript(SCHEMA)
    sql.execute("INSERT INTO node (name, epoch) VALUES (?, ?)", (name, epoch))
    sql.execute("INSERT INTO forgotten VALUES (1)")
    sql.execute("COMMIT")
    for folder in (path.parent, path.parent.parent):  # the names of new files and folders are to last as well
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check(sql: sqlite3.Connection, path: Path, name: Node) -> None:
    (found,) = sql.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path} is damaged: {found}. {REMEDY}")
    (owner,) = sql.execute("SELECT name FROM node").fetchone()
    if owner != name:
        raise StoreError(f"{path} belongs to {owner}, not to {name}: each node needs a data folder of its own")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, msgspec.DecodeError, KeyError) as error:
        raise StoreError(f"{path} cannot be read: {error}. {REMEDY}") from error


def _forget(sql: sqlite3.Connection, change: OutboxChange) -> None:
    if change.forgotten:
        sql.executemany("DELETE FROM sessions WHERE id = ?", [(each,) for each in change.forgotten.values()])
        sql.execute("UPDATE forgotten SET sequence_floor = max(sequence_floor, ?)", (change.sequence_floor,))


def _replace_state(sql: sqlite3.Connection, state: bytes) -> None:
    """The old state goes first, so that the new one finds its room."""
    sql.execute("UPDATE node SET state = NULL")
    sql.execute("DELETE FROM journal")
    sql.execute("UPDATE node SET state = ?", (state,))


def _journal_row(entry: Journalled) -> tuple[Node, bytes | None, float, str]:
    return entry.peer, entry.payload, entry.now, entry.timer
