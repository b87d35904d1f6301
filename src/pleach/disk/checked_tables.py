"""Tables whose damage is found: a checksum in every row, the number of rows of each table, a number for each commit.

    outbox   id │ recipients │ payload │ checksum          ledger   number │ rows │ checksum
             12 │ …          │ …       │ 0x5d1c_90aa                412 │ {"outbox": 7, "journal": 3, …} │ …

Rule 1: the last column of every table is the CRC-32 of the table's name and the row's other columns, the key among
        them: it finds every single flipped bit, and a row in another's place.
Rule 2: the ledger is one row that changes with each commit. It finds rows that are gone or too many.
Rule 3: the number of the last commit is also in a file of its own (commit_file.py). It finds commits that are gone.
Rule 4: no table has an index besides itself (PRIMARY KEY only of integers, or WITHOUT ROWID): its damage would be found
        by no checksum.
Rule 5: everything is checked when a database is opened, before anything of it is used.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from pleach.disk.commit_file import CommitFile
from pleach.errors import StoreDamagedError

LEDGER = "ledger"
LEDGER_SCHEMA = "CREATE TABLE ledger (number INTEGER NOT NULL, rows BLOB NOT NULL, checksum INTEGER NOT NULL);"
KEY_SHOWN_MAX = 60

_encode = msgspec.msgpack.Encoder().encode
_rows = msgspec.msgpack.Decoder(dict[str, int])


def checked(table: str, *values: Any) -> tuple[Any, ...]:
    """A row with its checksum."""
    return *values, zlib.crc32(_encode((table, *values)))


def is_sound(table: str, row: Sequence[Any]) -> bool:
    """Whether a row's checksum, its last column, is right."""
    return bool(zlib.crc32(_encode((table, *row[:-1]))) == row[-1])


class Ledger:
    """How many rows each table has, and the number of the last commit. One transaction at a time."""

    def __init__(self, commit_file: CommitFile, number: int = 0, rows: Mapping[str, int] | None = None) -> None:
        self.number = number
        self.rows = Counter(rows)
        self._commit_file = commit_file

    def begin(self, sql: sqlite3.Connection, rows: Mapping[str, int]) -> None:
        """Part of the transaction that creates the tables, with these rows in them."""
        self.number, self.rows = 1, Counter(rows)
        sql.execute("INSERT INTO ledger VALUES (?, ?, ?)", self._row(1, self.rows))

    def note(self, sql: sqlite3.Connection, rows: Counter[str], number: int | None = None) -> None:
        """Part of each transaction: its number (the next one, if none is given), and how many rows there are then."""
        number = self.number + 1 if number is None else number
        sql.execute("UPDATE ledger SET number = ?, rows = ?, checksum = ?", self._row(number, rows))

    def committed(self, rows: Counter[str], number: int | None = None) -> None:
        """The transaction is on disk."""
        self.number, self.rows = self.number + 1 if number is None else number, rows
        self._commit_file.write(self.number)

    def sync(self) -> None:
        self._commit_file.sync()

    def close(self) -> None:
        self._commit_file.close()

    @staticmethod
    def _row(number: int, rows: Counter[str]) -> tuple[Any, ...]:
        return checked(LEDGER, number, _encode(rows))


class Inspection:
    """The check of a database that was opened just now; `remedy` ends each error's text."""

    def __init__(self, sql: sqlite3.Connection, path: Path, remedy: str) -> None:
        self._sql = sql
        self._path = path
        self._remedy = remedy

    def inspect(self, layout: Mapping[str, Sequence[str]], commit_file: CommitFile) -> Ledger:
        """Check tables of these columns; raises StoreDamagedError."""
        self._check_structure()
        for table, columns in {**layout, LEDGER: ("number", "rows")}.items():
            self._check_columns(table, [*columns, "checksum"])
        with self._lenient():
            found = {table: self._check_rows(table) for table in (*layout, LEDGER)}
        ledger = self._read_ledger(found, commit_file)
        self._check_counts(ledger.rows, found)
        self._check_number(ledger.number, commit_file)
        return ledger

    def _check_structure(self) -> None:
        with self._told():
            (mode,) = self._sql.execute("PRAGMA journal_mode").fetchone()
            (found,) = self._sql.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self._damage(found)
        if mode != "wal":
            raise self._damage(f"its header says {mode} where it should say wal, so that its log is not read")

    def _check_columns(self, table: str, columns: list[str]) -> None:
        with self._told(table):
            found = [row[1] for row in self._sql.execute(f"PRAGMA table_info({table})")]
        if found != columns:
            raise self._damage(f"columns {', '.join(columns)} are expected, {', '.join(found) or 'none'} found", table)

    def _check_rows(self, table: str) -> int:
        count = 0
        with self._told(table):
            for row in self._sql.execute(f"SELECT * FROM {table}"):  # noqa: S608 - a name of ours
                if not is_sound(table, row):
                    raise self._damage("the checksum is wrong", table, str(row[0])[:KEY_SHOWN_MAX])
                count += 1
        return count

    def _read_ledger(self, found: Mapping[str, int], commit_file: CommitFile) -> Ledger:
        if found[LEDGER] != 1:
            raise self._damage(f"1 row is expected, {found[LEDGER]} found", LEDGER)
        number, rows, _ = self._sql.execute("SELECT * FROM ledger").fetchone()
        return Ledger(commit_file, number, _rows.decode(rows))

    def _check_counts(self, expected: Mapping[str, int], found: Mapping[str, int]) -> None:
        for table, count in found.items():
            if table != LEDGER and count != expected.get(table, 0):
                raise self._damage(f"{expected.get(table, 0):,} rows are expected, {count:,} found", table)

    def _check_number(self, number: int, commit_file: CommitFile) -> None:
        promised = commit_file.number
        if promised is None:
            raise StoreDamagedError(commit_file.path, "it is missing or empty", self._remedy)
        if number < promised:
            lost = f"{promised - number:,} confirmed commits are gone from its log"
            raise self._damage(f"its last commit is {number:,}, that in {commit_file.path.name} {promised:,}: {lost}")

    def _damage(self, reason: str, table: str = "", row: str = "") -> StoreDamagedError:
        return StoreDamagedError(self._path, reason, self._remedy, table=table, row=row)

    @contextmanager
    def _told(self, table: str = "") -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: in the text of an error of SQLite's
            raise self._damage(str(error), table) from error

    @contextmanager
    def _lenient(self) -> Iterator[None]:
        """Texts that are none are read all the same, so that the checksum can say which row it is."""
        self._sql.text_factory = lambda raw: raw.decode(errors="replace")
        try:
            yield
        finally:
            self._sql.text_factory = str


def close_unchanged(sql: sqlite3.Connection, database: Path) -> None:
    """Close a database that was refused, and leave its log as it is.

    SQLite would copy into the database what it takes for the sound part of the log, and delete the log. The rest of it
    may be readable elsewhere, or on a disk that is sound again.
    """
    log = database.with_name(f"{database.name}-wal")
    aside = log.with_name(f"{log.name}.aside")
    with suppress(FileNotFoundError):
        log.rename(aside)
    sql.close()
    with suppress(FileNotFoundError):
        aside.replace(log)
