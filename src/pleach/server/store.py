"""The store of one node: captured state, journal, sessions and outboxes, in one SQLite file.

    <directory>/pleach.db           and, while it is open, pleach.db-wal
    <directory>/pleach.committed    the number of the last commit
    <directory>/pleach.lock         held (flock) by the process that has the store open; a crash lets go of it

Rule 1: a batch is one transaction, on the disk (fsync) when `commit` returns; a crash leaves all of it or nothing.
Rule 2: what is queued for many peers is stored once, in a row that lists its recipients, and the row goes with the last
        confirmation. `sessions.first` alone says what is confirmed.
Rule 3: a store that is full has changed nothing and stays usable. A store whose disk has failed is not used again:
        after a failed fsync the content is unknown, and a second one that succeeds proves nothing.
Rule 4: a store that is damaged is refused by `open`, and left as it is (disk/checked_tables.py).

docs/decisions/0005-durability.md tells why, with measurements; 0035-what-lies-on-disk.md tells how damage is found.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec

from pleach.core.links.batch import PublisherMark, PublisherMarks
from pleach.core.links.endpoint import Batch, Journalled, Saved
from pleach.core.links.session import SessionState
from pleach.core.messages import Node
from pleach.disk.checked_tables import LEDGER_SCHEMA, Inspection, Ledger, checked, close_unchanged
from pleach.disk.commit_file import CommitFile
from pleach.disk.private_files import make_private, make_private_folder, open_private, sync_folder
from pleach.errors import StoreBrokenError, StoreDamagedError, StoreError, StoreFullError
from pleach.server.outboxes import OutboxChange, Outboxes, Row, decode_recipients, encode_recipients

DATABASE, COMMITTED, LOCK = "pleach.db", "pleach.committed", "pleach.lock"
APPLICATION = 0x504C_4348  # "PLCH" in the file's header: a store, and not some other database
VERSION = 6
PAGE_BYTES = 4_096
BYTES_MIN = 1_048_576  # the smallest quota: the schema, and room to work in
RESERVE_PAGES = 16  # of the quota, kept for batches that only confirm: they free more than they take
CHECKPOINT_BYTES = 4 * 1_048_576  # of log, about, before it is copied into the database
COMMIT_BYTES = 4 * PAGE_BYTES  # of log that a commit takes besides its payloads, about
LOG_BYTES_KEPT = 64 * 1_048_576  # the log's file is reused, not cut: on a full disk, confirmations find room in it
JOURNAL_ROW_BYTES = 48  # of a row of the journal besides peer, payload and timer, about

LAYOUT = {
    "node": ("name", "epoch", "state"),
    "journal": ("id", "peer", "payload", "now", "timer"),
    "sessions": ("id", "peer", "peer_epoch", "received", "first", "peer_view"),
    "outbox": ("id", "recipients", "payload"),
    "forgotten": ("sequence_floor",),
    "made_with": ("key", "value"),
    "sightings": ("peer", "publisher", "after", "incarnation", "sequence"),
}
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE node (name TEXT NOT NULL, epoch INTEGER NOT NULL, state BLOB, checksum INTEGER NOT NULL);
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
CREATE TABLE sightings (
    peer TEXT NOT NULL, publisher TEXT NOT NULL, after INTEGER NOT NULL,
    incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (peer, publisher, after)
) WITHOUT ROWID;
{LEDGER_SCHEMA}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
UPSERT_SESSION = """
INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
SET peer_epoch = excluded.peer_epoch, received = excluded.received, first = excluded.first,
    peer_view = excluded.peer_view, checksum = excluded.checksum
"""
SELECT_SESSIONS = "SELECT id, peer, peer_epoch, received, first, peer_view FROM sessions ORDER BY id"
WRITE_STATE = "UPDATE node SET name = ?, epoch = ?, state = ?, checksum = ?"
DELETE_SIGHTING = "DELETE FROM sightings WHERE peer = ? AND publisher = ? AND after = ?"
SETTLE_SIGHTINGS = "DELETE FROM sightings WHERE peer = ? AND after > 0 AND after < ?"
SELECT_SIGHTINGS = "SELECT peer, publisher, after, incarnation, sequence FROM sightings ORDER BY peer, after"
SELECT_JOURNAL = "SELECT peer, payload, now, timer FROM journal ORDER BY id"
JOURNAL_BYTES = "SELECT total(length(payload) + length(peer) + length(timer)) FROM journal"

REMEDY = (
    "Move the folder away: the broker then starts without memory, its neighbours and clients start over with it, and "
    "events that only this folder had are lost. A copy of the folder helps only if it was made after the broker ended."
)


class Store:
    """Made by `Store.open`. May be used from any thread; one call at a time is at work, others wait for it."""

    def __init__(
        self, path: Path, lock: BinaryIO, sql: sqlite3.Connection, ledger: Ledger, pages_max: int | None
    ) -> None:
        self.path = path
        self._lock = lock
        self._sql = sql
        self._ledger = ledger
        self._pages_max = pages_max
        self._turn = Lock()
        self._broken = ""  # why, once the disk has failed
        self._log_bytes = 0  # since the last checkpoint, about
        self.name: Node
        self.epoch: int
        self.state_bytes: int
        self.name, self.epoch, self.state_bytes = sql.execute(
            "SELECT name, epoch, coalesce(length(state), 0) FROM node"
        ).fetchone()
        (total,) = sql.execute(JOURNAL_BYTES).fetchone()
        self.journal_bytes = int(total) + self.journal_length * JOURNAL_ROW_BYTES
        self._outboxes = _read_outboxes(sql)

    @property
    def journal_length(self) -> int:
        return self._ledger.rows["journal"]

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
            sql = _connect(path)
            opened.callback(close_unchanged, sql, path)
            is_new = _is_new(sql, path)
            commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
            if is_new:
                _create(sql, path, commit_file, name, epoch)
            ledger = Inspection(sql, path, REMEDY).inspect(LAYOUT, commit_file)
            _check_owner(sql, path, name)
            commit_file.write(ledger.number)
            store = cls(path, lock, sql, ledger, bytes_max // PAGE_BYTES if bytes_max else None)
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
            rows = sql.execute(SELECT_SESSIONS).fetchall()
        sessions = {
            peer: SessionState(self.epoch, epoch, received, first, self._in_order(peer, first, boxes[session]), view)
            for session, peer, epoch, received, first, view in rows
        }
        return Saved(state, journal, sessions, sequence_floor)

    def sightings(self) -> list[PublisherMark]:
        """What was noted of each peer (witness.py)."""
        with self._turn, _translated(self.path):
            return [PublisherMark(*row) for row in self._sql.execute(SELECT_SIGHTINGS)]

    def _in_order(self, peer: Node, first: int, box: dict[int, bytes]) -> list[bytes]:
        unconfirmed = sorted(sequence for sequence in box if sequence >= first)
        if unconfirmed != list(range(first, first + len(unconfirmed))):
            raise StoreDamagedError(self.path, f"what waits for {peer} has gaps", REMEDY, table="outbox")
        return [box[sequence] for sequence in unconfirmed]

    def made_with(self, values: Mapping[str, str]) -> dict[str, str]:
        """What the store was made with; a key that is new to it takes the value given."""
        with self._turn, _translated(self.path):
            known = dict(self._sql.execute("SELECT key, value FROM made_with ORDER BY key"))
            added = {key: value for key, value in values.items() if key not in known}
            if added:
                with self._transaction(grows=True) as (sql, rows):
                    sql.executemany("INSERT INTO made_with VALUES (?, ?, ?)", _checked("made_with", added.items()))
                    rows["made_with"] += len(added)
            return {**known, **added}

    def bytes_free(self) -> int:
        """How much more fits, about: so that a node can say no before it is too late to write even that down."""
        if self._pages_max is None:
            return disk_usage(self.path.parent).free
        with self._turn, self._failures():
            (pages,) = self._sql.execute("PRAGMA page_count").fetchone()
            (unused,) = self._sql.execute("PRAGMA freelist_count").fetchone()
        return (self._pages_max - int(pages) + int(unused)) * PAGE_BYTES

    # Writing -------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, state: bytes | None = None, *, before: Sequence[Batch] = ()) -> None:
        """Write a batch; it is on the disk when this returns.

        `state`, if given, is the machine's state right after the batch, and takes the place of the captured one and
        of the whole journal, this batch's too: for a machine that was changed by calls that no journal knows, and
        whenever the journal has become long. Batches that come `before` are written with it, without their journals:
        a journal that would not fit does not keep the state from taking its place.

        StoreFullError: nothing was written, and the endpoint is ahead of its disk. Commit this batch again before any
        later one, or go on as after a crash, with an endpoint recovered from `load()`.
        """
        batches = [*before, batch]
        assert all(p.epoch == self.epoch for each in batches for p in each.progress.values()), "of another epoch"
        assert state is not None or not before, "batches are written together only where a state follows them"
        grows = state is not None or any(each.journal or each.queued or each.rewritten for each in batches)
        with self._turn:
            changes: list[OutboxChange] = []
            try:
                with self._transaction(grows=grows) as (sql, rows):
                    if state is not None:
                        _drop_state(sql, rows)
                    for each in batches:
                        changes.append(self._write(sql, rows, each, changes))
                    if state is None:
                        _write_journal(sql, rows, batch.journal)
                    else:
                        sql.execute(WRITE_STATE, checked("node", self.name, self.epoch, state))
            except StoreFullError:
                if len(changes) > 1:
                    self._outboxes = _read_outboxes(self._sql)
                raise
            self._outboxes.apply(changes[-1])
            self._note_sizes([] if state is not None else batch.journal, changes, state)
            self._checkpoint_when_due()

    def _write(
        self, sql: sqlite3.Connection, rows: Counter[str], batch: Batch, changes: Sequence[OutboxChange]
    ) -> OutboxChange:
        """Write all but the journal of a batch, after these changes of the same transaction."""
        if changes:
            self._outboxes.apply(changes[-1])
        change = self._outboxes.plan(batch)
        _write_outbox(sql, rows, change)
        if batch.sightings:
            _write_sightings(sql, rows, batch.sightings)
        return change

    def _note_sizes(self, journal: list[Journalled], changes: list[OutboxChange], state: bytes | None) -> None:
        written = sum(map(journal_entry_bytes, journal))
        self.journal_bytes += written
        if state is not None:
            self.journal_bytes, self.state_bytes = 0, len(state)
        queued = sum(len(row.payload) for change in changes for row in change.rows)
        self._log_bytes += COMMIT_BYTES + written + len(state or b"") + queued

    def snapshot(self, state: bytes) -> None:
        """Replace captured state and journal by `state`: that of a machine all whose batches are committed."""
        self.commit(Batch.empty(), state)

    def _checkpoint_when_due(self) -> None:
        """SQLite would do this by itself, but in silence where an fsync fails."""
        if self._log_bytes < CHECKPOINT_BYTES:
            return
        with suppress(StoreFullError), self._failures():  # no room: all is in the log still, and the next one may do
            self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._ledger.sync()
            self._log_bytes = 0

    # Failing -------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, *, grows: bool) -> Iterator[tuple[sqlite3.Connection, Counter[str]]]:
        """A transaction, and the numbers of rows, for it to bring up to date."""
        rows = self._ledger.rows.copy()
        with self._failures():
            if self._pages_max is not None:
                pages = self._pages_max - RESERVE_PAGES if grows else self._pages_max
                self._sql.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql, rows
                self._ledger.note(self._sql, rows)
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:  # SQLite may have rolled back itself
                    self._sql.execute("ROLLBACK")
                raise
            self._ledger.committed(rows)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        if self._broken:
            raise StoreBrokenError(self._broken)
        try:
            yield
        except (sqlite3.Error, OSError) as error:
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
            self._ledger.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The file ------------------------------------------------------------------------------------------------------


class StoreSummary(NamedTuple):
    """What a sound data directory is."""

    name: Node
    commits: int
    waiting: int  # payloads that somebody has not confirmed


def inspect_store(directory: Path) -> StoreSummary:
    """Check the data directory of a process that is stopped, and leave it as it is; raises StoreError."""
    path = directory / DATABASE
    if not path.exists():
        raise StoreError(f"{path} does not exist: give the data directory of a broker")
    with ExitStack() as opened, _translated(path):
        opened.enter_context(_locked(directory))
        sql = _connect(path)
        opened.callback(close_unchanged, sql, path)
        if _is_new(sql, path):
            raise StoreError(f"{path} is empty: no broker has started there")
        commit_file = opened.enter_context(closing(CommitFile(path.with_name(COMMITTED), REMEDY)))
        ledger = Inspection(sql, path, REMEDY).inspect(LAYOUT, commit_file)
        (name,) = sql.execute("SELECT name FROM node").fetchone()
        return StoreSummary(name, ledger.number, ledger.rows["outbox"])


def _locked(folder: Path) -> BinaryIO:
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


def _connect(path: Path) -> sqlite3.Connection:
    make_private(path)
    log = path.with_name(f"{path.name}-wal")
    if log.exists():  # of a release that let others read it
        make_private(log)
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
    if application != APPLICATION and path.with_name(COMMITTED).exists():
        raise StoreDamagedError(path, "its header is not that of a store", REMEDY)
    if application != APPLICATION:
        raise StoreError(f"{path} is a database, but not a store of Pleach: give another data folder")
    if version != VERSION:
        remedy = "use the Pleach that wrote it, or let it run empty there first (docs/how-to/upgrade.md)"
        raise StoreError(f"{path} has version {version}, this Pleach knows {VERSION}: {remedy}")
    return False


def _create(sql: sqlite3.Connection, path: Path, commit_file: CommitFile, name: Node, epoch: int) -> None:
    """The log is copied at once: a log that is damaged later then leaves a database that says what it is."""
    if commit_file.number:
        raise StoreDamagedError(path, f"it is empty, but {commit_file.path.name} knows of commits", REMEDY)
    commit_file.begin()
    ledger = Ledger(commit_file)
    sql.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    sql.execute("PRAGMA journal_mode = WAL")
    sql.executescript(SCHEMA)
    sql.execute("INSERT INTO node VALUES (?, ?, ?, ?)", checked("node", name, epoch, None))
    sql.execute("INSERT INTO forgotten VALUES (?, ?)", checked("forgotten", 1))
    ledger.begin(sql, {"node": 1, "forgotten": 1})
    sql.execute("COMMIT")
    sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    commit_file.write(ledger.number)
    for folder in (path.parent, path.parent.parent):
        sync_folder(folder)


def _check_owner(sql: sqlite3.Connection, path: Path, name: Node) -> None:
    (owner,) = sql.execute("SELECT name FROM node").fetchone()
    if owner != name:
        raise StoreError(f"{path} belongs to {owner}, not to {name}: each node needs a data folder of its own")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError, msgspec.DecodeError, KeyError) as error:
        raise StoreDamagedError(path, f"it cannot be read: {error}", REMEDY) from error
    except OSError as error:
        raise StoreError(f"{path}: {error}; check the disk, and who may write there") from error


# Rows ----------------------------------------------------------------------------------------------------------


def _read_outboxes(sql: sqlite3.Connection) -> Outboxes:
    return Outboxes.of(
        sql.execute("SELECT id, peer, first FROM sessions ORDER BY id"),
        sql.execute("SELECT id, recipients FROM outbox ORDER BY id"),
    )


def _checked(table: str, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [checked(table, *row) for row in rows]


def _write_outbox(sql: sqlite3.Connection, rows: Counter[str], change: OutboxChange) -> None:
    """What goes first makes room for what comes."""
    sql.executemany("DELETE FROM outbox WHERE id = ?", [(row,) for row in change.finished])
    if change.forgotten:
        _forget(sql, rows, change)
    sql.executemany(UPSERT_SESSION, _checked("sessions", change.sessions))
    sql.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", map(_outbox_row, change.rows))
    rows["outbox"] += len(change.rows) - len(change.finished)
    rows["sessions"] += change.sessions_added


def _forget(sql: sqlite3.Connection, rows: Counter[str], change: OutboxChange) -> None:
    gone = sql.executemany("DELETE FROM sessions WHERE id = ?", [(each,) for each in change.forgotten.values()])
    rows["sessions"] -= gone.rowcount
    (floor,) = sql.execute("SELECT sequence_floor FROM forgotten").fetchone()
    row = checked("forgotten", max(floor, change.sequence_floor))
    sql.execute("UPDATE forgotten SET sequence_floor = ?, checksum = ?", row)


def _write_journal(sql: sqlite3.Connection, rows: Counter[str], journal: list[Journalled]) -> None:
    first = rows["journal"] + 1
    values = ((n, entry.peer, entry.payload, float(entry.now), entry.timer) for n, entry in enumerate(journal, first))
    sql.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)", _checked("journal", values))
    rows["journal"] += len(journal)


def _write_sightings(sql: sqlite3.Connection, rows: Counter[str], sightings: PublisherMarks) -> None:
    latest = {mark[:3]: mark for mark in sightings.seen}
    replaced = sql.executemany(DELETE_SIGHTING, latest)
    sql.executemany("INSERT INTO sightings VALUES (?, ?, ?, ?, ?, ?)", _checked("sightings", latest.values()))
    settled = sql.executemany(SETTLE_SIGHTINGS, sightings.settled)
    rows["sightings"] += len(latest) - max(replaced.rowcount, 0) - max(settled.rowcount, 0)


def _drop_state(sql: sqlite3.Connection, rows: Counter[str]) -> None:
    """The old state and the journal go first, so that all else finds its room."""
    sql.execute("UPDATE node SET state = NULL")
    sql.execute("DELETE FROM journal")
    rows["journal"] = 0


def _outbox_row(row: Row) -> tuple[Any, ...]:
    return checked("outbox", row.id, encode_recipients(row.recipients), row.payload)


def journal_entry_bytes(entry: Journalled) -> int:
    """What an entry takes on disk, about."""
    return JOURNAL_ROW_BYTES + len(entry.peer) + len(entry.payload or b"") + len(entry.timer)
