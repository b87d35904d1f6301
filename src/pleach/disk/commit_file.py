"""The number of the last commit, in a file beside its database: a log that is cut short cannot hide it.

SQLite stops at the first frame of its log whose checksum is wrong and drops every later commit without a word: to it,
that is a transaction which a crash interrupted. The number in this file says that there was more.

Rule 1: the number is written after its commit is on disk, so it is never ahead of what was promised: no false alarm.
Rule 2: it is written without an fsync, which would double the price of a commit. The kernel keeps it when a process is
        killed. After a power cut it may be older, by as much as was committed since `sync`.

docs/decisions/0035-what-lies-on-disk.md
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pleach.disk.private_files import open_private, sync_folder
from pleach.errors import StoreDamagedError

RECORD = struct.Struct(">4sQI")  # "PLCN", the number, and the CRC-32 of both
MARK = b"PLCN"


class CommitFile:
    def __init__(self, path: Path, remedy: str) -> None:
        """Raises OSError, and StoreDamagedError where it contains no number."""
        self.path = path
        self._file = os.fdopen(open_private(path), "r+b", buffering=0)
        try:
            self.number = self._read(remedy)  # None: the file is new
        except BaseException:
            self.close()
            raise

    def _read(self, remedy: str) -> int | None:
        data = os.pread(self._file.fileno(), RECORD.size + 1, 0)
        if not data:
            return None
        if len(data) != RECORD.size or data != _record(number := RECORD.unpack(data)[1]):
            raise StoreDamagedError(self.path, "it does not contain the number of a commit", remedy)
        return int(number)

    def write(self, number: int) -> None:
        """On a full disk the number may stay an older one (rule 2)."""
        with _unless_full():
            os.pwrite(self._file.fileno(), _record(number), 0)
            self.number = number

    def sync(self) -> None:
        with _unless_full():
            os.fsync(self._file.fileno())

    def begin(self) -> None:
        """The file is to last before the first commit of its database does."""
        self.write(0)
        self.sync()
        sync_folder(self.path.parent)

    def close(self) -> None:
        if not self._file.closed:
            with suppress(OSError):  # an older number does no harm
                self.sync()
            self._file.close()


@contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _record(number: int) -> bytes:
    head = RECORD.pack(MARK, number, 0)[:-4]
    return head + struct.pack(">I", zlib.crc32(head))
