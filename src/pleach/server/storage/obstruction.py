"""A disk that is full or slow for a while, on purpose: for tests (server/http/faults.py). Only one store is affected.

Rule 1: what makes the database grow is refused while the disk is full, and what only deletes is not, as SQLite does.
Rule 2: time is that of the process, since it is its disk that seems slow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pleach.errors import StoreFullError


@dataclass(frozen=True)
class Obstruction:
    """`delay`: seconds that each commit takes longer. `until`: of `time.monotonic`."""

    is_full: bool
    delay: float
    until: float

    def before_commit(self, *, grows: bool) -> None:
        """Runs in the thread that writes. Raises StoreFullError."""
        if time.monotonic() >= self.until:
            return
        if self.delay:
            time.sleep(self.delay)
        if self.is_full and grows:
            raise StoreFullError("no room left, on purpose, for a while")
