"""Fills: a store copied in chunks while it is in use, and the chunks' encoding.

    stream to the replica    chunk   record   chunk   chunk   record   record   chunk   counts
    read at position           7       ▶8       8       8       ▶9       ▶10      10      10

A copy by ranges of keys, without a pause and without a snapshot (a fuzzy copy): rows that change while it is under way
are in the records that travel between the chunks.

Rule 1: a chunk is read between two commits, and travels after the records before it and before the records after it.
        So what the replica has of the ranges that were read is what the store has at this point of the stream.
Rule 2: rows whose keys are above the highest of the table at the first chunk come by records. So a fill ends, however
        much is committed meanwhile.
Rule 3: the last chunk says how many rows each table has: a chunk that is missing is noticed. A row carries the checksum
        with which it lies on disk: damage is noticed, on the way or at the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Annotated, Any, TypeAlias

import msgspec

from pleach.core.standby.positions import Position
from pleach.errors import RecordError
from pleach.server.storage.database import Database
from pleach.server.storage.records import (
    ForgottenRow,
    JournalRow,
    MadeWithRow,
    NodeRow,
    Number,
    OutboxRow,
    SessionsRow,
    check_rows,
)

CHUNK_BYTES = 262_144  # about, so that no commit waits for long; a row that is larger is a chunk by itself
CHUNK_ROWS_MAX = 1_000  # likewise, for rows that are small
ROW_BYTES = 64  # of a row besides its payload, about

WHOLE_TABLES = ("node", "forgotten", "made_with")
TABLES_BY_ID = ("sessions", "journal", "outbox")
COPIED_TABLES = (*WHOLE_TABLES, *TABLES_BY_ID)
PAYLOAD = 2  # the column of journal and outbox that may be large; of sessions it is a number


class RowsChunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Rows of one table."""

    position: Position  # at which they were read
    table: str
    rows: msgspec.Raw


class CountsChunk(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The last one: how many rows each table has."""

    position: Position
    rows: dict[str, Number]


Chunk: TypeAlias = RowsChunk | CountsChunk

_encode = msgspec.msgpack.Encoder().encode
_chunk_decoder: msgspec.msgpack.Decoder[Chunk] = msgspec.msgpack.Decoder(Chunk)
_decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "node": msgspec.msgpack.Decoder(list[NodeRow]),
    "forgotten": msgspec.msgpack.Decoder(list[ForgottenRow]),
    "made_with": msgspec.msgpack.Decoder(list[MadeWithRow]),
    "sessions": msgspec.msgpack.Decoder(list[SessionsRow]),
    "journal": msgspec.msgpack.Decoder(list[JournalRow]),
    "outbox": msgspec.msgpack.Decoder(list[OutboxRow]),
}


def decode_chunk(data: Annotated[bytes, "from a peer"]) -> Chunk:
    """Raises RecordError."""
    try:
        return _chunk_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no chunk of a fill: {error}") from None


def rows_of(chunk: RowsChunk) -> list[tuple[Any, ...]]:
    """Raises RecordError."""
    try:
        rows: list[tuple[Any, ...]] = _decoders[chunk.table].decode(chunk.rows)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no rows of a table {chunk.table[:20]!r}: {error}") from None
    check_rows(chunk.table, rows)
    return rows


class Fill:
    """Made by `Store.fill`. `next_chunk` takes its turn among the commits, and belongs in the thread that commits."""

    def __init__(self, database: Database, turn: Lock, position: Callable[[], Position]) -> None:
        self._database = database
        self._turn = turn
        self._store_position = position
        self._chunks = self._read()
        self.position = position()  # of the last chunk

    def next_chunk(self) -> bytes | None:
        """None: there are no more. Raises StoreError."""
        with self._turn, self._database.failures():
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            self.position = chunk.position
            return _encode(chunk)

    def _read(self) -> Iterator[Chunk]:
        ends = {table: self._end(table) for table in TABLES_BY_ID}
        for table in WHOLE_TABLES:
            yield self._chunk(table, self._database.sql.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608
        for table, end in ends.items():
            last = 0
            while rows := self._range(table, last, end):
                last = rows[-1][0]
                yield self._chunk(table, rows)
        counts = self._database.ledger.rows
        yield CountsChunk(self._store_position(), {table: counts[table] for table in COPIED_TABLES})

    def _chunk(self, table: str, rows: list[tuple[Any, ...]]) -> RowsChunk:
        return RowsChunk(self._store_position(), table, msgspec.Raw(_encode(rows)))

    def _end(self, table: str) -> int:
        (end,) = self._database.sql.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()  # noqa: S608
        return int(end)

    def _range(self, table: str, after: int, end: int) -> list[tuple[Any, ...]]:
        """The rows behind `after`, as many as fit into a chunk."""
        rows: list[tuple[Any, ...]] = []
        size = 0
        query = f"SELECT * FROM {table} WHERE id > ? AND id <= ? ORDER BY id LIMIT {CHUNK_ROWS_MAX}"  # noqa: S608
        cursor = self._database.sql.execute(query, (after, end))
        for row in cursor:
            rows.append(row)
            size += ROW_BYTES + (len(row[PAYLOAD]) if isinstance(row[PAYLOAD], bytes) else 0)
            if size >= CHUNK_BYTES:
                break
        cursor.close()  # a statement that is not at its end would keep the log from being copied
        return rows
