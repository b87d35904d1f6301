"""For tests of crashes: a broker that kills itself when a certain message is written to its disk.

    PLEACH_DEBUG_KILL_AT=Swap:before      as if the machine had failed before the batch with it was on disk
    PLEACH_DEBUG_KILL_AT=Close#2:after    after the second one was on disk, and before anything was sent because of it

Every step of a protocol is a message that is handled, so that these are all the moments which a crash can tell apart.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import NamedTuple

from pleach.core.links.batch import Batch, Journalled
from pleach.core.messages import decode
from pleach.errors import SettingsError
from pleach.server.store import Store

VARIABLE = "PLEACH_DEBUG_KILL_AT"
TAG_BYTES = 8  # at most, before the name of a message's type


class CrashHook(NamedTuple):
    message: str
    nth: int
    is_before: bool

    @classmethod
    def foretold(cls, environment: Mapping[str, str]) -> CrashHook | None:
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

    def commit(self, batch: Batch, state: bytes | None = None) -> None:
        before = self._seen
        self._seen += sum(self._is_meant(entry) for entry in batch.journal)
        is_here = before < self.crash_hook.nth <= self._seen
        if is_here and self.crash_hook.is_before:
            _die()
        super().commit(batch, state)
        if is_here:
            _die()

    def _is_meant(self, entry: Journalled) -> bool:
        """Its name is within the first bytes of a message, so that not all of them have to be read."""
        name = self.crash_hook.message
        if entry.payload is None or name.encode() not in entry.payload[: len(name) + TAG_BYTES]:
            return False
        return type(decode(entry.payload)).__name__ == name


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
