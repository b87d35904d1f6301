"""The state file of a client that outlives its process: one SQLite file with its session, requests and cursor.

Rule 1: `commit` is one transaction, on disk when it returns; the client transmits only then (session.py, rule 4).
Rule 2: `received` is the cursor: the broker repeats what follows it. Events between it and what has arrived are kept by
        the broker, except those in `kept`, which the client keeps itself. The broker repeats whole payloads; of the
        first one `skip` messages are consumed.
Rule 3: one process at a time: the file is locked while it is open; the lock ends with the process.
Rule 4: a file that is damaged is refused, and left as it is (disk/checked_tables.py).
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from pleach.core.events.event import Event
from pleach.core.links.endpoint import Progress, Queued
from pleach.core.links.session import SessionState
from pleach.core.messages import Node
from pleach.disk.checked_tables import LEDGER_SCHEMA, Inspection, Ledger, checked, close_unchanged
from pleach.disk.commit_file import CommitFile
from pleach.disk.private_files import make_private, make_private_folder
from pleach.errors import StoreDamagedError, StoreError

FILE, COMMITTED = "client.db", "client.committed"
VERSION = 6

LAYOUT = {
    "client": ("id", "name", "broker", "epoch", "state", "skip", "places"),
    "sessions": ("peer", "peer_epoch", "received", "first", "peer_view"),
    "outbox": ("peer", "sequence", "payload"),
    "kept": ("number", "event"),
}
SCHEMA = f"""
CREATE TABLE client (id INTEGER PRIMARY KEY, name TEXT NOT NULL, broker TEXT NOT NULL, epoch INTEGER NOT NULL,
    state BLOB NOT NULL, skip INTEGER NOT NULL, places TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE sessions (peer TEXT PRIMARY KEY, peer_epoch INTEGER NOT NULL, received INTEGER NOT NULL,
    first INTEGER NOT NULL, peer_view INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (peer TEXT NOT NULL, sequence INTEGER NOT NULL, payload BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (peer, sequence)) WITHOUT ROWID;
CREATE TABLE kept (number INTEGER PRIMARY KEY, event BLOB NOT NULL, checksum INTEGER NOT NULL);
{LEDGER_SCHEMA}
PRAGMA user_version = {VERSION};
"""
REMEDY = (
    "Move the state_dir away: the client then starts without memory; what it had not sent is lost, and its broker ends "
    "the former session with what waits there for it."
)

_event = msgspec.msgpack.Decoder(Event)


class Remembered(msgspec.Struct, frozen=True):
    """The state of a former process."""

    broker: Node
    epoch: int
    state: bytes  # of the endpoint
    sessions: dict[Node, SessionState]  # with the broker, and with former ones
    skip: int
    kept: Sequence[tuple[int, Event]]
    places: str  # addresses of the broker, and of others that may know where it is


class StateChange(msgspec.Struct, frozen=True):
    """What must be on disk before the next frame is sent."""

    broker: Node
    state: bytes
    progress: Mapping[Node, Progress]  # of sessions that changed; that with the broker is among them
    skip: int  # messages of the payload after `received` of the broker's that are consumed
    queued: Sequence[Queued]
    kept: Sequence[tuple[int, Event]] = ()
    consumed: Iterable[int] = ()  # numbers of kept events
    places: str = ""


class StateFile:
    def __init__(self, directory: Path, name: Node) -> None:
        self._name = name
        self._file = directory / FILE
        try:
            with ExitStack() as opened:
                make_private_folder(directory)
                make_private(self._file)
                self._db = sqlite3.connect(self._file, isolation_level=None, timeout=0.0)
                opened.callback(close_unchanged, self._db, self._file)
                self._ledger = self._prepare(opened)
                opened.pop_all()  # it stays open
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreError(
                f"{self._file} cannot be used: {error}; one process at a time may use a state_dir"
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise StoreDamagedError(self._file, str(error), REMEDY) from error

    def load(self) -> Remembered | None:
        row = self._db.execute("SELECT name, broker, epoch, state, skip, places FROM client").fetchone()
        if row is None:
            return None
        name, broker, epoch, state, skip, places = row
        if name != self._name:
            raise StoreError(f"{self._file} belongs to client {name!r}, not to {self._name!r}; use another state_dir")
        kept = [(n, _event.decode(e)) for n, e in self._db.execute("SELECT number, event FROM kept ORDER BY number")]
        return Remembered(broker, epoch, state, self._sessions(epoch), skip, kept, places)

    def _sessions(self, epoch: int) -> dict[Node, SessionState]:
        outboxes: dict[Node, list[bytes]] = defaultdict(list)
        for peer, payload in self._db.execute("SELECT peer, payload FROM outbox ORDER BY peer, sequence"):
            outboxes[peer].append(payload)
        rows = self._db.execute("SELECT peer, peer_epoch, received, first, peer_view FROM sessions")
        return {
            peer: SessionState(epoch, peer_epoch, received, first, outboxes[peer], peer_view)
            for peer, peer_epoch, received, first, peer_view in rows
        }

    def commit(self, change: StateChange) -> None:
        try:
            with self._transaction() as (db, rows):
                _write(db, rows, self._name, change)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._file} cannot be written: {error}; nothing was confirmed to the broker") from error

    def forget(self) -> None:
        """Delete the session: the next process starts anew."""
        try:
            with self._transaction() as (db, rows):
                for table in LAYOUT:
                    db.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
                rows.clear()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._file} cannot be written: {error}; remove it before the next start") from error

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sqlite3.Connection, Counter[str]]]:
        """A transaction, and the numbers of rows, for it to bring up to date."""
        db, rows = self._db, self._ledger.rows.copy()
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db, rows
            self._ledger.note(db, rows)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._ledger.committed(rows)

    def close(self) -> None:
        self._db.close()
        self._ledger.close()

    def _prepare(self, opened: ExitStack) -> Ledger:
        db = self._db
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        is_new = version == 0 and not tables
        if not is_new and version != VERSION:
            raise StoreError(f"{self._file} is of version {version}; this program reads version {VERSION}")
        commit_file = CommitFile(self._file.with_name(COMMITTED), REMEDY)
        opened.callback(commit_file.close)
        if is_new:
            self._create(commit_file)
        db.execute("PRAGMA synchronous = FULL")
        ledger = Inspection(db, self._file, REMEDY).inspect(LAYOUT, commit_file)
        db.execute("BEGIN EXCLUSIVE")  # takes the lock, which exclusive mode keeps
        db.execute("COMMIT")
        commit_file.write(ledger.number)
        return ledger

    def _create(self, commit_file: CommitFile) -> None:
        if commit_file.number:
            raise StoreDamagedError(self._file, f"it is empty, but {COMMITTED} knows of commits", REMEDY)
        commit_file.begin()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(f"BEGIN EXCLUSIVE; {SCHEMA}")
        ledger = Ledger(commit_file)
        ledger.begin(self._db, {})
        self._db.execute("COMMIT")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        commit_file.write(ledger.number)


def _write(db: sqlite3.Connection, rows: Counter[str], name: Node, change: StateChange) -> None:
    progress = change.progress
    queued = [checked("outbox", *each) for each in change.queued]
    kept = [checked("kept", number, msgspec.msgpack.encode(event)) for number, event in change.kept]
    sessions = [checked("sessions", peer, *p[1:]) for peer, p in progress.items()]
    own = progress[change.broker]
    client = checked("client", 1, name, change.broker, own.epoch, change.state, change.skip, change.places)
    db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", queued)
    confirmed = [(peer, each.first) for peer, each in progress.items()]
    gone = db.executemany("DELETE FROM outbox WHERE peer = ? AND sequence < ?", confirmed)
    rows["outbox"] += len(queued) - gone.rowcount
    db.executemany("INSERT INTO kept VALUES (?, ?, ?)", kept)
    consumed = db.executemany("DELETE FROM kept WHERE number = ?", [(number,) for number in change.consumed])
    rows["kept"] += len(kept) - max(consumed.rowcount, 0)
    db.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", sessions)
    (rows["sessions"],) = db.execute("SELECT count(*) FROM sessions").fetchone()
    db.execute("INSERT OR REPLACE INTO client VALUES (?, ?, ?, ?, ?, ?, ?, ?)", client)
    rows["client"] = 1
