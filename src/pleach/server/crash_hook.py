"""The crash hook, for tests: a process that kills itself at a certain message, which it writes to disk or gets.

    PLEACH_DEBUG_KILL_AT=Swap:before             before the batch with the message is on disk
    PLEACH_DEBUG_KILL_AT=Close#2:after           after the batch with the second one is on disk, before it is sent
    PLEACH_DEBUG_KILL_AT=standby.Prepare:soon    some milliseconds after a message between machines was handled
    PLEACH_DEBUG_KILL_AT=@FILE                   lines of `PROCESS MOMENT GROUP` are in a file, while there is one

Every step of a protocol is a message that is handled: a crash at any other moment is equal to one of these. With a file
a group of processes is killed when the named process comes to that moment, once: `b Swap:before 4711`, where 4711 may
be a machine's, and its own or another one's. Processes that a process starts have the same variable.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pleach.core.links.batch import Batch, Journalled
from pleach.core.messages import Node, decode
from pleach.core.messages.runs import is_run
from pleach.errors import SettingsError
from pleach.server.storage.store import Store

VARIABLE = "PLEACH_DEBUG_KILL_AT"
WHENS = ("before", "after", "soon")
SOON_SECONDS = 0.005
FILE_MARK = "@"


class Moment(NamedTuple):
    message: str
    nth: int
    when: str

    @classmethod
    def parse(cls, text: str) -> Moment:
        what, _, when = text.partition(":")
        message, _, count = what.partition("#")
        if when not in WHENS or not message.replace(".", "").isidentifier() or not (count or "1").isdigit():
            raise SettingsError(VARIABLE, f"{text!r} is no moment", "write MESSAGE:before or MESSAGE#2:after")
        return cls(message, int(count or "1"), when)


class CrashHook:
    """`process`: the name of this process. `text`: what the variable says."""

    def __init__(self, process: Node, text: str) -> None:
        self._process = process
        self._file = Path(text.removeprefix(FILE_MARK)) if text.startswith(FILE_MARK) else None
        self._fixed = Moment.parse(text) if self._file is None else None
        self._read = ""
        self._group = 0  # of the file
        self._seen = 0

    @classmethod
    def of(cls, process: Node) -> CrashHook | None:
        """None: this process dies when it must. Raises SettingsError."""
        text = os.environ.get(VARIABLE, "")
        return cls(process, text) if text else None

    @contextmanager
    def around(self, messages: Iterable[str]) -> Iterator[None]:
        """Kill before, after or soon after the block if the moment is among these messages."""
        when = self._when(messages)
        if when == "before":
            self._kill()
        yield
        if when == "after":
            self._kill()
        elif when == "soon":
            threading.Timer(SOON_SECONDS, self._kill).start()

    def _when(self, messages: Iterable[str]) -> str:
        moment = self._fixed if self._file is None else self._moment_of_file()
        if moment is None:
            return ""
        known = self._seen
        self._seen += sum(message == moment.message for message in messages)
        return moment.when if known < moment.nth <= self._seen else ""

    def _moment_of_file(self) -> Moment | None:
        assert self._file is not None
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return None
        if text != self._read:
            self._read, self._seen = text, 0
        for process, moment, group in (line.rsplit(maxsplit=2) for line in text.splitlines()):
            if process == self._process:
                self._group = int(group)
                return Moment.parse(moment)
        return None

    def _kill(self) -> None:
        if self._file is None:
            os.kill(os.getpid(), signal.SIGKILL)
            return
        with suppress(FileNotFoundError, ProcessLookupError):  # it is over, or they have ended
            self._file.unlink()
            os.killpg(self._group, signal.SIGKILL)


class CrashingStore(Store):
    crash_hook: CrashHook

    def commit(
        self, batch: Batch, state: bytes | None = None, *, before: Sequence[Batch] = (), record_first: bool = True
    ) -> None:
        written = (_name(entry) for each in (*before, batch) for entry in each.journal)
        with self.crash_hook.around(written):
            super().commit(batch, state, before=before, record_first=record_first)


def _name(entry: Journalled) -> str:
    """Of the message; empty for runs of events."""
    return "" if entry.payload is None or is_run(entry.payload) else type(decode(entry.payload)).__name__
