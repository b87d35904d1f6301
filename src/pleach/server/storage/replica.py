"""A replica: the store of a broker on the disk of another machine, kept by records, made by a fill.

    fill        begin_fill ──▶ take, apply_all … in any order ──▶ end_fill: the new copy takes the place of the old one
    records     apply_all ──▶ on disk, in one transaction

Rule 1: a record is written only to what its commit found: whoever is elsewhere is astray, and nothing is written.
Rule 2: the copy that is there stays until another one is whole. A primary that is lost during a fill has not taken
        along what the old copy had, and all that was confirmed is in that.
Rule 3: nothing is taken over from bytes that are no record or chunk, or whose checksums are wrong.
Rule 4: a copy that is damaged counts as none (`damage` says why): there is a fill for it.

After `close` the folder is a data directory for `Store.open`. One call at a time, in any thread.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias

from pleach.core.messages import Node
from pleach.core.standby.positions import Position
from pleach.disk.checked_tables import Ledger, checked
from pleach.disk.private_files import make_private_folder, open_private, sync_folder
from pleach.errors import AstrayError, RecordError, StoreDamagedError
from pleach.server.storage.database import (
    COMMITTED,
    DATABASE,
    FILLED,
    FILLING,
    Database,
    discard_filling,
    locked,
    settle_fill,
    translated,
)
from pleach.server.storage.fill import CountsChunk, decode_chunk, rows_of
from pleach.server.storage.records import (
    INTEGER_MAX,
    Record,
    decode_record,
    merge_record,
    merge_rows,
    write_record,
    write_run,
)

QUOTA_SLACK_SHARE = 16  # a replica may take this share more than its primary: the same rows lie otherwise on its pages

Replicated: TypeAlias = tuple[Position, Position, bytes]  # the positions before and after a record, and the record

log = logging.getLogger(__name__)


class Replica:
    """Made by `Replica.open`."""

    def __init__(self, folder: Path, broker: Node, lock: BinaryIO, bytes_max: int | None) -> None:
        self.folder = folder
        self.broker = broker
        self.position: Position | None = None  # None: there is no copy
        self.damage = ""  # of the copy that was found
        self._lock = lock
        self._bytes_max = bytes_max + bytes_max // QUOTA_SLACK_SHARE if bytes_max else None
        self._database: Database | None = None
        self._filling: Filling | None = None

    @classmethod
    def open(cls, folder: Path, broker: Node, *, bytes_max: int | None = None) -> Self:
        """Raises StoreError where the folder cannot be used."""
        with ExitStack() as opened:
            lock = opened.enter_context(locked(folder))
            settle_fill(folder)
            replica = cls(folder, broker, lock, bytes_max)
            if (folder / DATABASE).exists():
                replica._find()
            opened.pop_all()  # it stays open
        return replica

    def _find(self) -> None:
        try:
            database = Database.open(self.folder, self.broker, epoch=None, bytes_max=self._bytes_max)
        except StoreDamagedError as error:
            self.damage = str(error)
            log.warning("the copy of %s counts as none, and is to be filled again: %s", self.broker, error)
            return
        with translated(database.path):
            (run,) = database.sql.execute("SELECT run FROM history").fetchone()
        self._database, self.position = database, Position(run, database.ledger.number)

    # Records -------------------------------------------------------------------------------------------------

    def apply(self, previous: Position, position: Position, record: bytes) -> None:
        self.apply_all([(previous, position, record)])

    def apply_all(self, records: Sequence[Replicated]) -> None:
        """Write records in one transaction; they are on disk when this returns, or part of the fill.

        Raises AstrayError, RecordError, StoreFullError: nothing was written; StoreBrokenError.
        """
        if not records:
            return
        if self._filling is not None:
            self._filling.apply_all(records)
            return
        if self._database is None or self.position is None:
            raise AstrayError(f"there is no copy of {self.broker} that a record could follow")
        decoded = in_sequence(self.broker, self.position, records)
        last = records[-1][1]
        with self._database.transaction(grows=False, number=last.number) as (sql, rows):
            for record in decoded:
                write_record(sql, rows, record)
            if last.run != self.position.run:
                write_run(sql, last.run)
        self.position = last
        self._database.checkpoint_when_due(sum(len(data) for _, _, data in records))

    # Fills ---------------------------------------------------------------------------------------------------

    @property
    def is_filling(self) -> bool:
        """Whether records and chunks go into a new copy; `position` is that of the old one, until `end_fill`."""
        return self._filling is not None

    def begin_fill(self) -> None:
        """Begin a new copy, beside the one that is there; one that was begun before is dropped. Raises StoreError."""
        self.abandon_fill()
        discard_filling(self.folder)  # of an attempt that failed while it was begun
        self._filling = Filling(self.folder / FILLING, self.broker, self._bytes_max)

    def take(self, chunk: bytes) -> None:
        """Raises as `apply_all` does."""
        assert self._filling is not None, "no fill was begun"
        self._filling.take(chunk)

    def end_fill(self, position: Position) -> None:
        """The new copy is on disk, and in the place of the old one, when this returns.

        Raises AstrayError, RecordError where it is not whole, or not at this position, and StoreFullError: the fill
        is dropped, and the old copy stays.
        """
        assert self._filling is not None, "no fill was begun"
        try:
            self._filling.finish(position)
            with translated(self.folder / DATABASE):
                (self.folder / FILLING).rename(self.folder / FILLED)
                sync_folder(self.folder)
        except BaseException:
            self.abandon_fill()
            shutil.rmtree(self.folder / FILLED, ignore_errors=True)  # it may not replace later what goes on from here
            raise
        filled, self._filling = self._filling, None
        self._close_copy()
        settle_fill(self.folder)
        self._database = Database.open_known(self.folder, filled.ledger, self.broker, bytes_max=self._bytes_max)
        self.position = position

    def abandon_fill(self) -> None:
        """Drop a copy that is not whole, if one was begun."""
        if self._filling is not None:
            self._filling.close()
            self._filling = None
            discard_filling(self.folder)

    def close(self) -> None:
        self.abandon_fill()
        self._close_copy()
        self._lock.close()

    def _close_copy(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self.position, self.damage = None, None, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Filling:
    """A copy that is being filled, in a folder of its own: nothing of it counts before it is whole."""

    def __init__(self, folder: Path, broker: Node, bytes_max: int | None) -> None:
        self._folder = folder
        self._broker = broker
        self._position: Position | None = None  # of the last record or chunk
        self._is_whole = False
        with translated(folder / DATABASE):
            make_private_folder(folder)
        self._database = Database.make_empty(folder, broker, bytes_max=bytes_max)
        self._database.sql.execute("PRAGMA synchronous = NORMAL")  # a crash drops it: there is no need to wait

    @property
    def ledger(self) -> Ledger:
        return self._database.ledger

    def apply_all(self, records: Sequence[Replicated]) -> None:
        decoded = in_sequence(self._broker, self._position or records[0][0], records)
        with self._database.transaction(grows=False, number=1) as (sql, rows):
            for record in decoded:
                merge_record(sql, rows, record)
        self._position = records[-1][1]
        self._database.checkpoint_when_due(sum(len(data) for _, _, data in records))

    def take(self, data: bytes) -> None:
        chunk = decode_chunk(data)
        check_position(chunk.position)
        if self._position not in (None, chunk.position):
            raise AstrayError(f"a chunk was read at {chunk.position}, and the copy is at {self._position}")
        if isinstance(chunk, CountsChunk):
            self._check_counts(chunk)
        else:
            values = rows_of(chunk)
            for row in values if chunk.table == "node" else ():
                check_owner(self._broker, row)
            with self._database.transaction(grows=False, number=1) as (sql, rows):
                merge_rows(sql, rows, chunk.table, values)
            self._database.checkpoint_when_due(len(data))
        self._position = chunk.position

    def _check_counts(self, chunk: CountsChunk) -> None:
        found = self._database.ledger.rows
        wrong = [
            f"{table} {found[table]:,} of {count:,}" for table, count in chunk.rows.items() if found[table] != count
        ]
        if wrong or (found["node"], found["forgotten"]) != (1, 1):
            raise RecordError(f"the fill is not whole; rows of tables: {', '.join(wrong)}")
        self._is_whole = True

    def finish(self, position: Position) -> None:
        """All of it is on disk, and the database closed, when this returns."""
        if not self._is_whole:
            raise RecordError("the fill has ended before its last chunk")
        if position != self._position:
            raise AstrayError(f"the fill ends at {position}, and the copy is at {self._position}")
        database = self._database
        with database.failures():
            database.sql.execute("PRAGMA synchronous = FULL")
        with database.transaction(grows=False, number=position.number) as (sql, rows):
            sql.execute("INSERT INTO history VALUES (?, ?)", checked("history", position.run))
            rows["history"] = 1
        with database.failures():
            (is_busy, _, _) = database.sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            database.close()
            if is_busy or (self._folder / f"{DATABASE}-wal").exists():
                raise OSError(errno.EIO, "the log could not be copied")  # nobody would look for it
            for name in (DATABASE, COMMITTED):
                _sync_file(self._folder / name)
            sync_folder(self._folder)

    def close(self) -> None:
        self._database.close()


def in_sequence(broker: Node, at: Position, records: Sequence[Replicated]) -> list[Record]:
    """The records, decoded; raises AstrayError where one does not follow the one before it, and RecordError."""
    for previous, position, _ in records:
        check_position(position)
        if previous != at:
            raise AstrayError(f"a record follows {previous}, and the copy is at {at}")
        if position.number != previous.number + 1:
            raise RecordError(f"a record leads from {previous} to {position}")
        at = position
    decoded = [decode_record(data) for _, _, data in records]
    for record in decoded:
        if record.node is not None:
            check_owner(broker, record.node)
    return decoded


def check_position(position: Position) -> None:
    if not all(0 <= number <= INTEGER_MAX for number in position):
        raise RecordError(f"{position} is no position of a store")


def check_owner(broker: Node, node: Sequence[object]) -> None:
    if node[0] != broker:
        raise RecordError(f"the copy is one of {broker}, and the rows are those of {node[0]}")


def _sync_file(path: Path) -> None:
    descriptor = open_private(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
