"""The store of one node: captured state, journal, sessions and outboxes, in one SQLite file (database.py).

Rule 1: a batch is one transaction, on the disk (fsync) when `commit` returns; a crash leaves all of it or nothing.
Rule 2: what is queued for many peers is stored once, in a row that lists its recipients, and the row goes with the last
        confirmation. `sessions.first` alone says what is confirmed.
Rule 3: two commits with the same position have the same content, on whatever disk. A run is therefore left for a new
        one when a record was handed out and not written, and when a store that has one is written to by a process that
        has not begun one of its own.

docs/decisions/0005-durability.md tells why, with measurements; 0035-what-lies-on-disk.md tells how damage is found.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import BinaryIO, Self, TypeAlias

from pleach.core.links.endpoint import Batch, Journalled, Saved
from pleach.core.links.session import SessionState
from pleach.core.messages import Node
from pleach.core.standby.positions import Position
from pleach.errors import StoreBrokenError, StoreDamagedError, StoreError
from pleach.server.storage.database import BYTES_MIN, PAGE_BYTES, REMEDY, Database, locked, settle_fill, translated
from pleach.server.storage.fill import Fill
from pleach.server.storage.obstruction import Obstruction
from pleach.server.storage.outboxes import OutboxChange, Outboxes, decode_recipients
from pleach.server.storage.outdated import mark_outdated, refuse_outdated
from pleach.server.storage.records import (
    Record,
    checked_rows,
    encode_record,
    journal_rows,
    node_row,
    record_step,
    write_record,
    write_run,
)

JOURNAL_ROW_BYTES = 48  # of a row of the journal besides peer, payload and timer, about
RUN_BITS = 62

SELECT_SESSIONS = "SELECT id, peer, peer_epoch, received, first, peer_view FROM sessions ORDER BY id"
SELECT_JOURNAL = "SELECT peer, payload, now, timer FROM journal ORDER BY id"
JOURNAL_BYTES = "SELECT total(coalesce(length(payload), 0) + length(peer) + length(timer)) FROM journal"

OnRecord: TypeAlias = Callable[[Position, Position, bytes], None]  # the positions before and after it, and the record


class Store:
    """Made by `Store.open`. May be used from any thread; one call at a time is at work, others wait for it."""

    def __init__(self, database: Database, lock: BinaryIO) -> None:
        self.path = database.path
        self._database = database
        self._lock = lock
        self._turn = Lock()
        sql = database.sql
        self.name: Node
        self.epoch: int
        self.state_bytes: int
        self.name, self.epoch, self.state_bytes = sql.execute(
            "SELECT name, epoch, coalesce(length(state), 0) FROM node"
        ).fetchone()
        (total,) = sql.execute(JOURNAL_BYTES).fetchone()
        self.journal_bytes = int(total) + self.journal_length * JOURNAL_ROW_BYTES
        (run,) = sql.execute("SELECT run FROM history").fetchone()
        self.position = Position(run, database.ledger.number)  # of the last commit
        self.on_record: OnRecord | None = None  # called in the thread that commits
        self._run = new_run() if self.position.run else 0  # of the next commit
        self._outboxes = _read_outboxes(sql)

    @property
    def journal_length(self) -> int:
        return self._database.ledger.rows["journal"]

    @classmethod
    def open(cls, directory: Path | str, name: Node, *, epoch: int, bytes_max: int | None = None) -> Self:
        """Open the store of node `name`, or create one for a node of this epoch.

        `bytes_max` bounds the database; the log beside it is small, but for the largest batch. Raises StoreError.
        """
        assert epoch > 0, "epoch 0 stands for a peer that was never met"
        if bytes_max is not None and bytes_max < BYTES_MIN:
            raise StoreError(f"a quota of {bytes_max:,} bytes is too small: give {BYTES_MIN:,} or more")
        folder = Path(directory)
        with ExitStack() as opened:
            lock = opened.enter_context(locked(folder))
            settle_fill(folder)
            refuse_outdated(folder)
            database = Database.open(folder, name, epoch=epoch, bytes_max=bytes_max)
            opened.callback(database.close)
            with translated(database.path):
                store = cls(database, lock)
            opened.pop_all()  # it stays open
        return store

    def begin_run(self, run: int) -> None:
        """Commits from here on belong to this run, which no other process has begun."""
        assert run > 0, "run 0 is that of stores that were never replicated"
        with self._turn:
            assert run != self.position.run, "it has been begun before"
            self._run = run

    def fill(self) -> Fill:
        """A copy of everything, to be read in chunks between commits."""
        return Fill(self._database, self._turn, lambda: self.position)

    # Reading -------------------------------------------------------------------------------------------------

    def load(self) -> Saved:
        """All that was committed, as `Endpoint.recover` takes it over."""
        with self._turn, translated(self.path):
            sql = self._database.sql
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

    def _in_order(self, peer: Node, first: int, box: dict[int, bytes]) -> list[bytes]:
        unconfirmed = sorted(sequence for sequence in box if sequence >= first)
        if unconfirmed != list(range(first, first + len(unconfirmed))):
            raise StoreDamagedError(self.path, f"what waits for {peer} has gaps", REMEDY, table="outbox")
        return [box[sequence] for sequence in unconfirmed]

    def made_with(self, values: Mapping[str, str]) -> dict[str, str]:
        """What the store was made with; a key that is new to it takes the value given."""
        with self._turn, translated(self.path):
            known = dict(self._database.sql.execute("SELECT key, value FROM made_with ORDER BY key"))
            added = {key: value for key, value in values.items() if key not in known}
            if added:
                record = Record(made_with=checked_rows("made_with", added.items()))
                self._write(record, grows=True, record_first=False)
            return {**known, **added}

    def bytes_free(self) -> int:
        """How much more fits, about: so that a node can say no before it is too late to write even that down."""
        database = self._database
        if database.pages_max is None:
            return disk_usage(self.path.parent).free
        with self._turn, database.failures():
            (pages,) = database.sql.execute("PRAGMA page_count").fetchone()
            (unused,) = database.sql.execute("PRAGMA freelist_count").fetchone()
        return (database.pages_max - int(pages) + int(unused)) * PAGE_BYTES

    # Writing -------------------------------------------------------------------------------------------------

    def commit(
        self, batch: Batch, state: bytes | None = None, *, before: Sequence[Batch] = (), record_first: bool = True
    ) -> None:
        """Write a batch; it is on the disk when this returns.

        `state`, if given, is the machine's state right after the batch, and takes the place of the captured one and
        of the whole journal, this batch's too: for a machine that was changed by calls that no journal knows, and
        whenever the journal has become long. Batches that come `before` are written with it, without their journals:
        a journal that would not fit does not keep the state from taking its place.

        `record_first`: `on_record` is called before the record is written, so that it travels meanwhile; else after.

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
                for each in batches:
                    changes.append(self._plan(each, changes))
                record = self._record(changes, [] if state is not None else batch.journal, state)
                self._write(record, grows=grows, record_first=record_first)
            except Exception as error:
                if before and not isinstance(error, StoreBrokenError):  # the index has gone ahead of the disk
                    self._outboxes = _read_outboxes(self._database.sql)
                raise
            self._outboxes.apply(changes[-1])
            written = self._note_sizes([] if state is not None else batch.journal, changes, state)
            self._database.checkpoint_when_due(written)

    def _plan(self, batch: Batch, before: Sequence[OutboxChange]) -> OutboxChange:
        """What a batch changes, after these changes of the same commit."""
        if before:
            self._outboxes.apply(before[-1])
        return self._outboxes.plan(batch)

    def _record(self, changes: Sequence[OutboxChange], journal: Sequence[Journalled], state: bytes | None) -> Record:
        return Record(
            [record_step(change) for change in changes],
            journal_rows(journal, self.journal_length + 1),
            node=node_row(self.name, self.epoch, state) if state is not None else None,
        )

    def _write(self, record: Record, *, grows: bool, record_first: bool) -> None:
        """One transaction, and its record for whoever wants it."""
        previous, position = self.position, Position(self._run, self.position.number + 1)
        hand_out = self.on_record
        if hand_out is not None and record_first:
            self._run = new_run()  # rule 3: unless this one is written
            hand_out(previous, position, encode_record(record))
        with self._database.transaction(grows=grows) as (sql, rows):
            write_record(sql, rows, record)
            if position.run != previous.run:
                write_run(sql, position.run)
        self.position, self._run = position, position.run
        if hand_out is not None and not record_first:
            hand_out(previous, position, encode_record(record))

    def _note_sizes(self, journal: Sequence[Journalled], changes: list[OutboxChange], state: bytes | None) -> int:
        """Returns how much was written, about."""
        written = sum(map(journal_entry_bytes, journal))
        self.journal_bytes += written
        if state is not None:
            self.journal_bytes, self.state_bytes = 0, len(state)
        queued = sum(len(row.payload) for change in changes for row in change.rows)
        return written + len(state or b"") + queued

    def snapshot(self, state: bytes) -> None:
        """Replace captured state and journal by `state`: that of a machine all whose batches are committed."""
        self.commit(Batch.empty(), state)

    def obstruct(self, obstruction: Obstruction) -> None:
        """From here on commits meet a disk that is full or slow, for as long as that lasts."""
        self._database.obstruction = obstruction

    def mark_outdated(self, reason: str) -> None:
        """The directory is an old copy: it is not opened any more."""
        mark_outdated(self.path.parent, reason)

    # Closing -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._turn:
            self._database.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_run() -> int:
    """A run that nobody has drawn before."""
    return secrets.randbits(RUN_BITS) + 1


def _read_outboxes(sql: sqlite3.Connection) -> Outboxes:
    return Outboxes.of(
        sql.execute("SELECT id, peer, first FROM sessions ORDER BY id"),
        sql.execute("SELECT id, recipients FROM outbox ORDER BY id"),
        *sql.execute("SELECT sequence_floor FROM forgotten").fetchone(),
    )


def journal_entry_bytes(entry: Journalled) -> int:
    """What an entry takes on disk, about."""
    return JOURNAL_ROW_BYTES + len(entry.peer) + len(entry.payload or b"") + len(entry.timer)
