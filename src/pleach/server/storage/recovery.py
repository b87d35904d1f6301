"""Recovery of an endpoint from its store. What cannot be read names its row, and is no traceback.

Rows whose checksums are right may still be unreadable: written by another release, with other limits, or by a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pleach.core.links.endpoint import Endpoint, Journalled
from pleach.errors import StoreDamagedError
from pleach.server.storage.database import REMEDY
from pleach.server.storage.store import Store


class JournalReplay:
    """The entries of a journal, and how many of them were handed out."""

    def __init__(self, entries: Iterable[Journalled]) -> None:
        self._entries = entries
        self.row = 0  # of the entry that is replayed now
        self.is_over = False

    def __iter__(self) -> Iterator[Journalled]:
        for entry in self._entries:
            self.row += 1
            yield entry
        self.is_over = True


def recover(endpoint: Endpoint, store: Store, *, now: float) -> list[Journalled]:
    """Take over what is on disk; returns the journal. Raises StoreDamagedError."""
    saved = store.load()
    journal = list(saved.journal)
    replay = JournalReplay(journal)
    try:
        endpoint.recover(saved._replace(journal=replay), now=now)
    except Exception as error:
        if replay.is_over:
            raise  # all was read: this is a bug
        reason = f"it cannot be taken over ({type(error).__name__}: {error})"
        place = ("journal", str(replay.row)) if replay.row else ("node", store.name)
        raise StoreDamagedError(store.path, reason, REMEDY, table=place[0], row=place[1]) from error
    return journal
