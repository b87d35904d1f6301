"""The journal of a link: what a broker can report about a neighbour that died.

    marks │ Sent(e1)  Got(e2)  Sent(e3)  …
          └ unconfirmed events, and events received from the neighbour meanwhile

A neighbour confirms an event when it is on its disk. Events received while nothing is unconfirmed are only *marked*:
per publisher the highest event, since the events of a publisher arrive over a link in rising order. While events are
unconfirmed, the order of both directions is kept: an event sent after another was received may be an answer to it.

The driver commits the journal together with its outbox, only where healing is on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Got, JournalEntry, Sent

Marks: TypeAlias = dict[str, EventId]  # per publisher its highest event


def note(marks: Marks, event: EventId) -> None:
    if not covers(marks, event):
        marks[event.publisher] = event


def covers(marks: Marks, event: EventId) -> bool:
    """Whether this event, or a later one of its publisher, is marked."""
    highest = marks.get(event.publisher)
    return highest is not None and event <= highest


def marks_of(events: Iterable[EventId]) -> Marks:
    marks: Marks = {}
    for event in events:
        note(marks, event)
    return marks


def in_order(marks: Marks) -> list[EventId]:
    return sorted(marks.values())


class Journal:
    def __init__(self) -> None:
        self._marks: Marks = {}
        self._entries: deque[JournalEntry] = deque()
        self._confirmed = 0  # events, since the link was opened

    @property
    def marks(self) -> list[EventId]:
        return in_order(self._marks)

    @property
    def entries(self) -> Sequence[JournalEntry]:
        return list(self._entries)

    def sent(self, event: Event) -> None:
        self._entries.append(Sent(event))

    def got(self, event: EventId) -> None:
        if self._entries:
            self._entries.append(Got(event))
        else:
            note(self._marks, event)

    def confirmed(self, upto: int) -> None:
        """The neighbour has confirmed this many of all events ever sent to it."""
        while self._confirmed < upto:
            assert self._entries, f"{upto} confirmed, of {self._confirmed} sent"
            if isinstance(self._entries[0], Sent):
                self._entries.popleft()
                self._confirmed += 1
            else:
                self._mark_first()
        while self._entries and isinstance(self._entries[0], Got):
            self._mark_first()

    def _mark_first(self) -> None:
        first = self._entries.popleft()
        assert isinstance(first, Got)
        note(self._marks, first.event)

    def hand_over(self) -> tuple[list[EventId], list[JournalEntry]]:
        """Marks and entries for a testimony; the neighbour's stand-in is responsible for them from now on."""
        marks, entries = self.marks, list(self._entries)
        for entry in entries:
            if isinstance(entry, Got):
                note(self._marks, entry.event)
        self._entries.clear()
        self._confirmed = 0
        return marks, entries
