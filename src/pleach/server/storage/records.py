"""Records: the rows that a commit of a store changes, for its own disk and for its replicas'.

    ┌ steps ──────────────────────────────────────────────┬ journal ┬ made_with ┬ node ──────────────┐
    │ finished  ended  floor  joined  sessions  queued    │ rows    │ rows      │ the row, with the  │   one step for
    │ (outbox)  (sessions)    (rows, rows, rows)  …       │         │           │ state, or nothing  │   each batch
    └─────────────────────────────────────────────────────┴─────────┴───────────┴────────────────────┘

Rule 1: a row carries the checksum with which it lies on disk: a replica checks it, and writes it as it is. `seal` is
        the checksum of these, and of the keys of what is deleted: payloads are not read twice for it.
Rule 2: deletions come before insertions, so that what goes makes room for what comes.
Rule 3: a record with a state replaces the state, and the whole journal.
Rule 4: written to what its commit found, a record deletes and updates rows that are there, and inserts rows that are
        not; anything else is a RecordError. Merged into a database that is being filled (`merge_record`), it leaves
        each of its rows as the commit does, whatever is there.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from pleach.core.links.endpoint import Journalled
from pleach.core.messages import Node
from pleach.disk.checked_tables import checked, is_sound
from pleach.errors import RecordError
from pleach.server.storage.outboxes import OutboxChange, Row, encode_recipients

INTEGER_MAX = 2**63 - 1  # of the database
BLOB_BYTES_MAX = 1_000_000_000 - 1_000  # of a row of the database, about

Id: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
Checksum: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Blob: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=BLOB_BYTES_MAX)]

# Rows of the tables (database.py), with their checksums.
NodeRow: TypeAlias = tuple[str, Id, Blob | None, Checksum]
ForgottenRow: TypeAlias = tuple[Id, Checksum]
MadeWithRow: TypeAlias = tuple[str, str, Checksum]
SessionsRow: TypeAlias = tuple[Id, str, Number, Number, Number, Number, Checksum]
JournalRow: TypeAlias = tuple[Id, str, Blob | None, float, str, Checksum]
OutboxRow: TypeAlias = tuple[Id, Blob, Blob, Checksum]

INSERT = {
    "node": "INSERT INTO node VALUES (?, ?, ?, ?)",
    "forgotten": "INSERT INTO forgotten VALUES (?, ?)",
    "made_with": "INSERT INTO made_with VALUES (?, ?, ?)",
    "sessions": "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
    "journal": "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)",
    "outbox": "INSERT INTO outbox VALUES (?, ?, ?, ?)",
}
DELETE = {
    "made_with": "DELETE FROM made_with WHERE key = ?",
    "sessions": "DELETE FROM sessions WHERE id = ?",
    "journal": "DELETE FROM journal WHERE id = ?",
    "outbox": "DELETE FROM outbox WHERE id = ?",
}
UPDATE_SESSION = """
UPDATE sessions SET peer = ?2, peer_epoch = ?3, received = ?4, first = ?5, peer_view = ?6, checksum = ?7 WHERE id = ?1
"""
UPDATE_FLOOR = "UPDATE forgotten SET sequence_floor = ?, checksum = ?"
UPDATE_NODE = "UPDATE node SET name = ?, epoch = ?, state = ?, checksum = ?"
UPDATE_RUN = "UPDATE history SET run = ?, checksum = ?"


class RecordStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one batch does to sessions and outbox."""

    finished: list[Id]  # rows of the outbox that go
    ended: list[Id]  # sessions that go
    floor: ForgottenRow | None
    joined: list[SessionsRow]  # new sessions
    sessions: list[SessionsRow]
    queued: list[OutboxRow]


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    steps: list[RecordStep] = []
    journal: list[JournalRow] = []
    made_with: list[MadeWithRow] = []
    node: NodeRow | None = None
    seal: Checksum = 0


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    return _encode(msgspec.structs.replace(record, seal=_seal(record)))


def decode_record(data: Annotated[bytes, "from a peer"]) -> Record:
    """Raises RecordError."""
    try:
        record = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no record of a store: {error}") from None
    if record.seal != _seal(record):
        raise RecordError("a record was damaged on its way: its checksum is wrong")
    for table, rows in _rows(record):
        check_rows(table, rows)
    return record


def _seal(record: Record) -> int:
    """Of a record whose rows are sound."""
    deleted = [(step.finished, step.ended) for step in record.steps]
    return zlib.crc32(_encode((deleted, [[row[-1] for row in rows] for _, rows in _rows(record)])))


def check_rows(table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Raises RecordError where a checksum is wrong."""
    for row in rows:
        if not is_sound(table, row):
            raise RecordError(f"a row of table {table} was damaged at its store: its checksum is wrong")


def _rows(record: Record) -> Iterator[tuple[str, Sequence[Sequence[Any]]]]:
    for step in record.steps:
        yield "forgotten", [step.floor] if step.floor else ()
        yield "sessions", step.joined
        yield "sessions", step.sessions
        yield "outbox", step.queued
    yield "journal", record.journal
    yield "made_with", record.made_with
    yield "node", [record.node] if record.node else ()


# Making --------------------------------------------------------------------------------------------------------


def record_step(change: OutboxChange) -> RecordStep:
    return RecordStep(
        change.finished,
        list(change.forgotten.values()),
        checked("forgotten", change.sequence_floor) if change.forgotten else None,
        checked_rows("sessions", change.joined),
        checked_rows("sessions", change.sessions),
        [_outbox_row(row) for row in change.rows],
    )


def journal_rows(journal: Sequence[Journalled], first: int) -> list[JournalRow]:
    """Entries of the journal, numbered from `first`."""
    return checked_rows(
        "journal",
        ((n, entry.peer, entry.payload, float(entry.now), entry.timer) for n, entry in enumerate(journal, first)),
    )


def node_row(name: Node, epoch: int, state: bytes) -> NodeRow:
    return checked("node", name, epoch, state)


def checked_rows(table: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [checked(table, *row) for row in rows]


def _outbox_row(row: Row) -> Any:
    return checked("outbox", row.id, encode_recipients(row.recipients), row.payload)


# Writing -------------------------------------------------------------------------------------------------------


def write_record(sql: sqlite3.Connection, rows: Counter[str], record: Record) -> None:
    """Part of a transaction, which brings the numbers of rows up to date (rules 2 to 4)."""
    if record.node is not None:
        sql.execute("UPDATE node SET state = NULL")
        sql.execute("DELETE FROM journal")
        rows["journal"] = 0
    for step in record.steps:
        _write_step(sql, rows, step)
    _insert(sql, rows, "journal", record.journal)
    _insert(sql, rows, "made_with", record.made_with)
    if record.node is not None:
        sql.execute(UPDATE_NODE, record.node)


def _write_step(sql: sqlite3.Connection, rows: Counter[str], step: RecordStep) -> None:
    if step.finished:
        gone = sql.executemany(DELETE["outbox"], [(row,) for row in step.finished])
        _expect(gone, len(step.finished), "outbox")
        rows["outbox"] -= len(step.finished)
    if step.ended:  # some may never have reached the disk
        rows["sessions"] -= sql.executemany(DELETE["sessions"], [(session,) for session in step.ended]).rowcount
    if step.floor is not None:
        sql.execute(UPDATE_FLOOR, step.floor)
    _insert(sql, rows, "sessions", step.joined)
    if step.sessions:
        _expect(sql.executemany(UPDATE_SESSION, step.sessions), len(step.sessions), "sessions")
    _insert(sql, rows, "outbox", step.queued)


def _insert(sql: sqlite3.Connection, rows: Counter[str], table: str, values: Sequence[tuple[Any, ...]]) -> None:
    if not values:
        return
    try:
        sql.executemany(INSERT[table], values)
    except sqlite3.IntegrityError as error:
        raise RecordError(f"a record inserts what table {table} does not take: {error}") from None
    rows[table] += len(values)


def _expect(done: sqlite3.Cursor, count: int, table: str) -> None:
    if done.rowcount != count:
        raise RecordError(f"a record changes {count:,} rows of table {table}, of which {done.rowcount:,} are there")


def write_run(sql: sqlite3.Connection, run: int) -> None:
    sql.execute(UPDATE_RUN, checked("history", run))


# Merging -------------------------------------------------------------------------------------------------------


def merge_record(sql: sqlite3.Connection, rows: Counter[str], record: Record) -> None:
    """Part of a transaction in a database that is being filled."""
    if record.node is not None:
        rows["journal"] -= sql.execute("DELETE FROM journal").rowcount
        merge_rows(sql, rows, "node", [record.node])
    for step in record.steps:
        _delete(sql, rows, "outbox", step.finished)
        _delete(sql, rows, "sessions", step.ended)
        if step.floor is not None:
            merge_rows(sql, rows, "forgotten", [step.floor])
        merge_rows(sql, rows, "sessions", [*step.joined, *step.sessions])
        merge_rows(sql, rows, "outbox", step.queued)
    merge_rows(sql, rows, "journal", record.journal)
    merge_rows(sql, rows, "made_with", record.made_with)


def merge_rows(sql: sqlite3.Connection, rows: Counter[str], table: str, values: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, or put them in the place of those with their keys."""
    if table in DELETE:
        _delete(sql, rows, table, [row[0] for row in values])
    elif values:  # a table of one row
        rows[table] -= sql.execute(f"DELETE FROM {table}").rowcount  # noqa: S608 - a name of ours
    _insert(sql, rows, table, values)


def _delete(sql: sqlite3.Connection, rows: Counter[str], table: str, keys: Sequence[Any]) -> None:
    if keys:
        rows[table] -= sql.executemany(DELETE[table], [(key,) for key in keys]).rowcount
