"""The memory of a client that outlives its process: one SQLite file with its session, its requests and its cursor.

Rule 1: `commit` is one transaction, on disk when it returns; only then does the client transmit (session.py, rule 4).
Rule 2: `received` is the cursor: the broker repeats what comes after it. Events between it and what really arrived are
        kept by the broker, except those in `kept`, which the client keeps itself. The broker repeats whole payloads;
        of the first one `skip` messages are consumed.
Rule 3: one process at a time: the file is locked while it is open, and a kill lets go of it.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from pleach.core.events.event import Event
from pleach.core.links.endpoint import Progress, Queued
from pleach.core.links.session import SessionState
from pleach.core.messages import Node
from pleach.errors import StoreError

FILE = "client.db"
VERSION = 4

SCHEMA = """
CREATE TABLE client (name TEXT PRIMARY KEY, broker TEXT NOT NULL, epoch INTEGER NOT NULL, state BLOB NOT NULL,
    skip INTEGER NOT NULL);
CREATE TABLE sessions (peer TEXT PRIMARY KEY, peer_epoch INTEGER NOT NULL, received INTEGER NOT NULL,
    first INTEGER NOT NULL);
CREATE TABLE outbox (peer TEXT NOT NULL, sequence INTEGER NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (peer, sequence)) WITHOUT ROWID;
CREATE TABLE kept (number INTEGER PRIMARY KEY, event BLOB NOT NULL);
"""

_event = msgspec.msgpack.Decoder(Event)


class Remembered(msgspec.Struct, frozen=True):
    """What a former process left."""

    broker: Node
    epoch: int
    state: bytes  # of the endpoint
    sessions: dict[Node, SessionState]  # with this broker, and with those before it
    skip: int
    kept: Sequence[tuple[int, Event]]


class StateChange(msgspec.Struct, frozen=True):
    """What is to be on disk before the next frame leaves."""

    broker: Node
    state: bytes
    progress: Mapping[Node, Progress]  # of sessions that have moved, that with the broker among them
    skip: int  # messages of the payload after `received` of the broker's that are consumed
    queued: Sequence[Queued]
    kept: Sequence[tuple[int, Event]] = ()
    consumed: Iterable[int] = ()  # numbers of kept events


class StateFile:
    def __init__(self, directory: Path, name: Node) -> None:
        self._name = name
        self._file = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self._file, isolation_level=None, timeout=0.0)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{self._file} cannot be used: {error}; one process at a time may use a state_dir"
            ) from error

    def load(self) -> Remembered | None:
        row = self._db.execute("SELECT * FROM client").fetchone()
        if row is None:
            return None
        name, broker, epoch, state, skip = row
        if name != self._name:
            raise StoreError(f"{self._file} belongs to client {name!r}, not to {self._name!r}; use another state_dir")
        kept = [(n, _event.decode(e)) for n, e in self._db.execute("SELECT * FROM kept ORDER BY number")]
        return Remembered(broker, epoch, state, self._sessions(epoch), skip, kept)

    def _sessions(self, epoch: int) -> dict[Node, SessionState]:
        outboxes: dict[Node, list[bytes]] = defaultdict(list)
        for peer, payload in self._db.execute("SELECT peer, payload FROM outbox ORDER BY peer, sequence"):
            outboxes[peer].append(payload)
        rows = self._db.execute("SELECT peer, peer_epoch, received, first FROM sessions")
        return {
            peer: SessionState(epoch, peer_epoch, received, first, outboxes[peer])
            for peer, peer_epoch, received, first in rows
        }

    def commit(self, change: StateChange) -> None:
        db, progress = self._db, change.progress
        row = (self._name, change.broker, progress[change.broker].epoch, change.state, change.skip)
        sessions = [(peer, each.peer_epoch, each.received, each.first) for peer, each in progress.items()]
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO outbox VALUES (?, ?, ?)", change.queued)
            confirmed = [(peer, each.first) for peer, each in progress.items()]
            db.executemany("DELETE FROM outbox WHERE peer = ? AND sequence < ?", confirmed)
            db.executemany("INSERT INTO kept VALUES (?, ?)", [(n, msgspec.msgpack.encode(e)) for n, e in change.kept])
            db.executemany("DELETE FROM kept WHERE number = ?", [(number,) for number in change.consumed])
            db.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", sessions)
            db.execute("INSERT OR REPLACE INTO client VALUES (?, ?, ?, ?, ?)", row)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise StoreError(f"{self._file} cannot be written: {error}; nothing was confirmed to the broker") from error

    def forget(self) -> None:
        """The session is over for good: the next process starts anew."""
        try:
            self._db.executescript(
                "BEGIN; DELETE FROM client; DELETE FROM sessions; DELETE FROM outbox; DELETE FROM kept; COMMIT;"
            )
        except sqlite3.Error as error:
            raise StoreError(f"{self._file} cannot be written: {error}; remove it before the next start") from error

    def close(self) -> None:
        self._db.close()

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(f"BEGIN EXCLUSIVE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise StoreError(f"{self._file} is of version {version}; this program reads version {VERSION}")
        db.execute("BEGIN EXCLUSIVE")  # takes the lock, which exclusive mode then keeps
        db.execute("COMMIT")
