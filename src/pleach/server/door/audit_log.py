"""The audit log: who asked the operators' port for what, and what came of it. One JSON object per line, on disk.

    {"at": "2026-01-31T12:00:00.000Z", "stage": "asked", "id": "…", "principal": "oscar", "way": "certificate",
     "address": "10.0.0.7", "method": "POST", "path": "/overlay/swap", "body": "{\"a\": \"a\", …}", "status": 0}

Rule 1: a POST leaves a line "answered" with its status, synced before the answer is sent; also where it was refused.
Rule 2: what changes anything leaves a line "asked" before, synced before anything is done: a broker that is killed
        while it acts would leave none else. The two have one `id`. A line "asked" alone: the end is not known.
Rule 3: what cannot be recorded is not done: without the line "asked" the request is refused. Without the line
        "answered" it was carried out; the caller is told both.
Rule 4: strangers cannot fill the disk. Of those who have not logged in, STRANGERS_PER_SECOND lines are written, after
        a reserve of STRANGERS_AT_ONCE; the next line tells how many were left out.
Rule 5: lines are ASCII, and their parts bounded: no name, path or body can forge a line or control a terminal.
Rule 6: SIGHUP opens the file anew, so that it can be rotated by renaming it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pleach.errors import AuditError
from pleach.server.http.caller import Caller
from pleach.server.http.page import HttpRequest

FILE = "audit.log"
MODE = 0o600
STRANGERS_PER_SECOND = 1.0
STRANGERS_AT_ONCE = 60.0
ID_BYTES = 6
STDERR = 2
CHARACTERS_MAX = {"path": 256, "body": 1_024, "principal": 256}
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditLog:
    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        """None: to stderr, where the broker keeps nothing on disk. Raises AuditError where it cannot be opened."""
        self._path = path
        self._clock = clock
        self._descriptor: int | None = None
        self._is_renamed = False
        self._turn = asyncio.Lock()
        self._reserve, self._refilled_at = STRANGERS_AT_ONCE, clock()
        self._left_out = 0
        try:
            self._open()
        except OSError as error:
            raise AuditError(str(path), error.strerror or str(error)) from None

    async def asked(self, request: HttpRequest) -> None:
        """Record what is about to be done. Raises AuditError: then it must not be done."""
        await self._record(request, "asked", 0, request.caller)

    async def answered(self, request: HttpRequest, status: int, caller: Caller | None = None) -> None:
        """Record the outcome. `caller`: who has logged in by this request. Raises AuditError."""
        by = caller or request.caller
        if by.is_known or self._has_reserve():
            await self._record(request, "answered", status, by)
        else:
            self._left_out += 1

    def reopen(self) -> None:
        """At the next line, since one may be being written: the file was renamed."""
        self._is_renamed = True

    async def close(self) -> None:
        async with self._turn:
            self._close()

    # Lines -----------------------------------------------------------------------------------------------------

    def _has_reserve(self) -> bool:
        now = self._clock()
        passed, self._refilled_at = max(0.0, now - self._refilled_at), now
        self._reserve = min(STRANGERS_AT_ONCE, self._reserve + passed * STRANGERS_PER_SECOND)
        if self._reserve < 1.0:
            return False
        self._reserve -= 1.0
        return True

    async def _record(self, request: HttpRequest, stage: str, status: int, caller: Caller) -> None:
        left_out, self._left_out = self._left_out, 0
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        line = {
            "at": at.replace("+00:00", "Z"),
            "stage": stage,
            "id": request.id,
            "principal": _bounded("principal", caller.principal),
            "way": caller.way.value,
            "address": caller.address,
            "method": request.method,
            "path": _bounded("path", request.path),
            "body": _bounded("body", request.told.decode(errors="replace")),
            "status": status,
            **({"left_out": left_out} if left_out else {}),
        }
        text = json.dumps(line).replace("\x7f", "\\u007f") + "\n"
        async with self._turn:
            try:
                await asyncio.to_thread(self._write, text.encode("ascii"))
            except OSError as error:
                self._close()  # what is in the file is known only when it is opened again
                self._left_out += left_out
                raise AuditError(str(self._path), error.strerror or str(error)) from None

    # The file --------------------------------------------------------------------------------------------------

    def _write(self, line: bytes) -> None:
        if self._is_renamed:
            self._is_renamed = False
            self._close()
        descriptor = self._open()
        _write_all(descriptor, line)
        if self._path is not None:
            os.fsync(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.dup(STDERR) if self._path is None else _opened(self._path)
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def fresh_id() -> str:
    return secrets.token_hex(ID_BYTES)


def _opened(path: Path) -> int:
    """The end of the file. A line that was cut off by a crash, or by a full disk, is ended."""
    descriptor = os.open(path, FLAGS, MODE)
    try:
        known = os.fstat(descriptor)
        if stat.S_ISREG(known.st_mode):
            if not known.st_size:
                _sync_directory(path.parent)
            elif os.pread(descriptor, 1, known.st_size - 1) != b"\n":
                _write_all(descriptor, b"\n")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _bounded(key: str, text: str) -> str:
    most = CHARACTERS_MAX[key]
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
