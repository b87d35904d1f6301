"""The crash hook, for tests: a broker that kills itself when a certain message is written to its disk.

    PLEACH_DEBUG_KILL_AT=Swap:before      before the batch with the message is on disk
    PLEACH_DEBUG_KILL_AT=Close#2:after    after the batch with the second one is on disk, before its frames are sent

Every step of a protocol is a message that is handled: a crash at any other moment is equal to one of these.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pleach.core.links.batch import Batch, Journalled
from pleach.core.messages import decode
from pleach.core.messages.runs import is_run
from pleach.errors import SettingsError
from pleach.server.store import Store

VARIABLE = "PLEACH_DEBUG_KILL_AT"


class CrashHook(NamedTuple):
    message: str
    nth: int
    is_before: bool

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> CrashHook | None:
        text = environment.get(VARIABLE, "")
        if not text:
            return None
        what, _, when = text.partition(":")
        message, _, count = what.partition("#")
        if when not in ("before", "after") or not message.isidentifier() or not (count or "1").isdigit():
            raise SettingsError(VARIABLE, f"{text!r} is no moment", "write MESSAGE:before or MESSAGE#2:after")
        return cls(message, int(count or "1"), when == "before")


class CrashingStore(Store):
    crash_hook: CrashHook
    _seen = 0

    def commit(
        self, batch: Batch, state: bytes | None = None, *, before: Sequence[Batch] = (), record_first: bool = True
    ) -> None:
        known = self._seen
        self._seen += sum(self._is_meant(entry) for each in (*before, batch) for entry in each.journal)
        is_here = known < self.crash_hook.nth <= self._seen
        if is_here and self.crash_hook.is_before:
            _die()
        super().commit(batch, state, before=before, record_first=record_first)
        if is_here:
            _die()

    def _is_meant(self, entry: Journalled) -> bool:
        if entry.payload is None or is_run(entry.payload):
            return False
        return type(decode(entry.payload)).__name__ == self.crash_hook.message


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
