"""The database of a data directory: its files and tables, transactions in it, and how it fails.

    <directory>/pleach.db           and, while it is open, pleach.db-wal
    <directory>/pleach.committed    the number of the last commit
    <directory>/pleach.lock         held (flock) by the process that has it open; a crash lets go of it
    <directory>/pleach.outdated     where it is an old copy: it is not opened any more (outdated.py)
    <directory>/filling/            the same files of a replica that is being filled (replica.py)
    <directory>/filled/             of one that is filled, and takes the place of the files above

Rule 1: a database that is full has changed nothing and stays usable. One whose disk has failed is not used again: after
        a failed fsync the content is unknown, and a second one that succeeds proves nothing.
Rule 2: a database that is damaged is refused, and left as it is (disk/checked_tables.py).
Rule 3: a folder `filled` is whole, and counts: whoever opens the directory next puts its files into their places.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import msgspec

from pleach.core.messages import Node
from pleach.disk.checked_tables import LEDGER_SCHEMA, Inspection, Ledger, checked, close_unchanged
from pleach.disk.commit_file import CommitFile
from pleach.disk.private_files import make_private, make_private_folder, open_private, sync_folder
from pleach.errors import StoreBrokenError, StoreDamagedError, StoreError, StoreFullError
from pleach.server.storage.obstruction import Obstruction
from pleach.server.storage.outdated import OUTDATED

DATABASE, COMMITTED, LOCK = "pleach.db", "pleach.committed", "pleach.lock"
FILLING, FILLED = "filling", "filled"
APPLICATION = 0x504C_4348  # "PLCH" in the file's header: a store, and not some other database
VERSION = 6
PAGE_BYTES = 4_096
BYTES_MIN = 1_048_576  # the smallest quota: the schema, and room to work in
RESERVE_PAGES = 16  # of the quota, kept for batches that only confirm: they free more than they take
CHECKPOINT_BYTES = 4 * 1_048_576  # of log, about, before it is copied into the database
COMMIT_BYTES = 4 * PAGE_BYTES  # of log that a commit takes besides its payloads, about
LOG_BYTES_KEPT = 64 * 1_048_576  # the log's file is reused, not cut: on a full disk, confirmations find room in it

LAYOUT = {
    "node": ("name", "epoch", "state"),
    "history": ("run",),
    "journal": ("id", "peer", "payload", "now", "timer"),
    "sessions": ("id", "peer", "peer_epoch", "received", "first", "peer_view"),
    "outbox": ("id", "recipients", "payload"),
    "forgotten": ("sequence_floor",),
    "made_with": ("key", "value"),
}
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE node (name TEXT NOT NULL, epoch INTEGER NOT NULL, state BLOB, checksum INTEGER NOT NULL);
CREATE TABLE history (run INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY, peer TEXT NOT NULL, payload BLOB, now REAL NOT NULL, timer TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, peer TEXT NOT NULL,
    peer_epoch INTEGER NOT NULL, received INTEGER NOT NULL, first INTEGER NOT NULL, peer_view INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY, recipients BLOB NOT NULL, payload BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE forgotten (sequence_floor INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE made_with (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
{LEDGER_SCHEMA}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""

REMEDY = (
    "Move the folder away: the broker then starts without memory, its neighbours and clients start over with it, and "
    "events that only this folder had are lost. A copy of the folder helps only if it was made after the broker ended."
)


class Database:
    """Made by `Database.open`. One call at a time."""

    def __init__(self, path: Path, sql: sqlite3.Connection, ledger: Ledger, name: Node, pages_max: int | None) -> None:
        self.path = path
        self.sql = sql
        self.ledger = ledger
        self.name = name
        self.pages_max = pages_max
        self._broken = ""  # why, once the disk has failed
        self._log_bytes = 0  # since the last checkpoint, about
        self.obstruction: Obstruction | None = None

    @classmethod
    def open(cls, folder: Path, name: Node, *, epoch: int | None, bytes_max: int | None) -> Self:
        """Open the database of node `name`, whose lock is held. `epoch`: of the node, where there is none yet.

        Raises StoreError.
        """
        path = folder / DATABASE
        with ExitStack() as opened, translated(path):
            sql = _connect(path)
            opened.callback(close_unchanged, sql, path)
            is_new = _is_new(sql, path)
            commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
            if is_new and epoch is not None:
                _create(sql, path, commit_file)
                _begin(sql, path, commit_file, name, epoch)
            ledger = Inspection(sql, path, REMEDY).inspect(LAYOUT, commit_file)
            _check_owner(sql, path, name)
            commit_file.write(ledger.number)
            database = cls(path, sql, ledger, name, _pages(bytes_max))
            opened.pop_all()  # it stays open
        return database

    @classmethod
    def open_known(cls, folder: Path, known: Ledger, name: Node, *, bytes_max: int | None) -> Self:
        """Open one that this process has written and closed, under another name, with this ledger."""
        path = folder / DATABASE
        with ExitStack() as opened, translated(path):
            sql = _connect(path)
            opened.callback(close_unchanged, sql, path)
            commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
            database = cls(path, sql, Ledger(commit_file, known.number, known.rows), name, _pages(bytes_max))
            opened.pop_all()  # it stays open
        return database

    @classmethod
    def make_empty(cls, folder: Path, name: Node, *, bytes_max: int | None) -> Self:
        """Create one without rows, in a folder without one."""
        path = folder / DATABASE
        with ExitStack() as opened, translated(path):
            sql = _connect(path)
            opened.callback(close_unchanged, sql, path)
            commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
            _create(sql, path, commit_file)
            ledger = Ledger(commit_file)
            ledger.begin(sql, {})
            sql.execute("COMMIT")
            database = cls(path, sql, ledger, name, _pages(bytes_max))
            opened.pop_all()  # it stays open
        return database

    @contextmanager
    def transaction(
        self, *, grows: bool, number: int | None = None
    ) -> Iterator[tuple[sqlite3.Connection, Counter[str]]]:
        """A transaction, and the numbers of rows, for it to bring up to date; `number`: of the commit, if not the next.

        StoreFullError: nothing was written.
        """
        if self.obstruction is not None:
            self.obstruction.before_commit(grows=grows)
        rows = self.ledger.rows.copy()
        with self.failures():
            if self.pages_max is not None:
                pages = self.pages_max - RESERVE_PAGES if grows else self.pages_max
                self.sql.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            self.sql.execute("BEGIN IMMEDIATE")
            try:
                yield self.sql, rows
                self.ledger.note(self.sql, rows, number)
                self.sql.execute("COMMIT")
            except BaseException:
                if self.sql.in_transaction:  # SQLite may have rolled back itself
                    self.sql.execute("ROLLBACK")
                raise
            self.ledger.committed(rows, number)

    def checkpoint_when_due(self, written: int) -> None:
        """Payloads of so many bytes were committed.

        SQLite would copy its log by itself, but in silence where an fsync fails.
        """
        self._log_bytes += COMMIT_BYTES + written
        if self._log_bytes < CHECKPOINT_BYTES:
            return
        with suppress(StoreFullError), self.failures():  # no room: all is in the log still, and the next one may do
            self.sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self.ledger.sync()
            self._log_bytes = 0

    @contextmanager
    def failures(self) -> Iterator[None]:
        if self._broken:
            raise StoreBrokenError(self._broken)
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                limit = f"quota of {self.pages_max * PAGE_BYTES:,} bytes" if self.pages_max else "disk"
                raise StoreFullError(
                    f"{self.path}: no room left ({limit}); it takes more once peers confirm"
                ) from error
            self._broken = f"{self.path}: {error}; check the disk, then start {self.name} again"
            raise StoreBrokenError(self._broken) from error

    def close(self) -> None:
        with suppress(sqlite3.Error):  # all that was promised is on the disk already
            self.sql.close()
        self.ledger.close()


# Files ---------------------------------------------------------------------------------------------------------


def locked(folder: Path) -> BinaryIO:
    """The folder's lock file, which is ours until it is closed; the system closes it for a process that dies."""
    path = folder / LOCK
    try:
        make_private_folder(folder)
        lock = os.fdopen(open_private(path), "r+b")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; give a data folder that this user may write to") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreError(f"{path} is held by another process: stop that one, or use a folder of its own") from error
    return lock


def settle_fill(folder: Path) -> None:
    """Rule 3; and a fill that was not finished is deleted. The lock is held.

    A crash in the middle leaves what the next call completes: nobody opens the database before.
    """
    filled = folder / FILLED
    with translated(folder / DATABASE):
        discard_filling(folder)
        if not filled.is_dir():
            return
        (folder / f"{DATABASE}-wal").unlink(missing_ok=True)
        for name in (DATABASE, COMMITTED):
            with suppress(FileNotFoundError):  # it is in its place already
                (filled / name).replace(folder / name)
        (folder / OUTDATED).unlink(missing_ok=True)
        sync_folder(folder)
        shutil.rmtree(filled)
        sync_folder(folder)


def discard_filling(folder: Path) -> None:
    shutil.rmtree(folder / FILLING, ignore_errors=True)


def _connect(path: Path) -> sqlite3.Connection:
    make_private(path)
    log = path.with_name(f"{path.name}-wal")
    if log.exists():  # of a release that let others read it
        make_private(log)
    sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # its users take turns
    sql.execute("PRAGMA locking_mode = EXCLUSIVE")  # one process anyway, so no shared memory file is needed
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
    sql.execute("PRAGMA checkpoint_fullfsync = ON")
    sql.execute("PRAGMA wal_autocheckpoint = 0")
    sql.execute("PRAGMA temp_store = MEMORY")  # what large statements need, events among it, stands in no other folder
    sql.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
    return sql


def _is_new(sql: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; raises StoreError where it is neither that nor a store of ours."""
    (application,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and tables == 0:
        return True
    if application != APPLICATION and path.with_name(COMMITTED).exists():
        raise StoreDamagedError(path, "its header is not that of a store", REMEDY)
    if application != APPLICATION:
        raise StoreError(f"{path} is a database, but not a store of Pleach: give another data folder")
    if version != VERSION:
        remedy = "use the Pleach that wrote it, or let it run empty there first (docs/how-to/upgrade.md)"
        raise StoreError(f"{path} has version {version}, this Pleach knows {VERSION}: {remedy}")
    return False


def _create(sql: sqlite3.Connection, path: Path, commit_file: CommitFile) -> None:
    """The tables, in a transaction that is still open."""
    if commit_file.number:
        raise StoreDamagedError(path, f"it is empty, but {commit_file.path.name} knows of commits", REMEDY)
    commit_file.begin()
    sql.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    sql.execute("PRAGMA journal_mode = WAL")
    sql.executescript(SCHEMA)


def _begin(sql: sqlite3.Connection, path: Path, commit_file: CommitFile, name: Node, epoch: int) -> None:
    """The log is copied at once: a log that is damaged later then leaves a database that says what it is."""
    ledger = Ledger(commit_file)
    sql.execute("INSERT INTO node VALUES (?, ?, ?, ?)", checked("node", name, epoch, None))
    sql.execute("INSERT INTO history VALUES (?, ?)", checked("history", 0))
    sql.execute("INSERT INTO forgotten VALUES (?, ?)", checked("forgotten", 1))
    ledger.begin(sql, {"node": 1, "history": 1, "forgotten": 1})
    sql.execute("COMMIT")
    sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    commit_file.write(ledger.number)
    for folder in (path.parent, path.parent.parent):
        sync_folder(folder)


def _check_owner(sql: sqlite3.Connection, path: Path, name: Node) -> None:
    (owner,) = sql.execute("SELECT name FROM node").fetchone()
    if owner != name:
        raise StoreError(f"{path} belongs to {owner}, not to {name}: each node needs a data folder of its own")


def _pages(bytes_max: int | None) -> int | None:
    return bytes_max // PAGE_BYTES if bytes_max else None


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError, msgspec.DecodeError, KeyError) as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise StoreFullError(f"{path}: no room left on the disk") from error
        raise StoreDamagedError(path, f"it cannot be read: {error}", REMEDY) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFullError(f"{path}: no room left on the disk") from error
        raise StoreError(f"{path}: {error}; check the disk, and who may write there") from error


# Inspection ----------------------------------------------------------------------------------------------------


class StoreSummary(NamedTuple):
    """What a sound data directory is."""

    name: Node
    commits: int
    waiting: int  # payloads that somebody has not confirmed


def inspect_store(directory: Path) -> StoreSummary:
    """Check the data directory of a process that is stopped, and leave it as it is; raises StoreError."""
    path = directory / DATABASE
    if not path.exists() and not (directory / FILLED).exists():
        raise StoreError(f"{path} does not exist: give the data directory of a broker")
    with ExitStack() as opened, translated(path):
        opened.enter_context(locked(directory))
        settle_fill(directory)
        sql = _connect(path)
        opened.callback(close_unchanged, sql, path)
        if _is_new(sql, path):
            raise StoreError(f"{path} is empty: no broker has started there")
        commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
        ledger = Inspection(sql, path, REMEDY).inspect(LAYOUT, commit_file)
        (name,) = sql.execute("SELECT name FROM node").fetchone()
        return StoreSummary(name, ledger.number, ledger.rows["outbox"])
