"""Notes on the events that this broker's own clients publish and get, while somebody asks for them (`/traffic`).

Who improves the tree asks every few seconds. When nobody has for a while, nothing is noted, and events cost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pleach.core.effects import Effect, Passed, Send
from pleach.core.messages import Deliver, Message, Node, Publish, PublishRefused
from pleach.core.messages.runs import Run
from pleach.core.optimise.sightings import NOTE_SECONDS_MAX, EventKey, Report, Seen, SightingLog

WATCHED_SECONDS = NOTE_SECONDS_MAX  # after somebody has asked


class TrafficNotes:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._book = SightingLog()
        self._until = 0.0
        self.is_on = False

    def look(self, broker: Node, after: int) -> tuple[Report, int]:
        """What there is to tell after a number; and somebody cares, from now on for a while."""
        now = self._clock()
        self._until, self.is_on = now + WATCHED_SECONDS, True
        return self._book.told(broker, after, now)

    def saw(self, message: Message | None, effects: Sequence[Effect]) -> None:
        """A message was handled, or (None) a timer."""
        now = self._clock()
        if now > self._until:
            self.is_on = False
            return
        sent = [effect.message for effect in effects if isinstance(effect, Send)]
        if isinstance(message, Publish) and not any(isinstance(each, PublishRefused) for each in sent):
            self._book.note([message.event.id], Seen.PUBLISH, now)
        self._book.note((each.event.id for each in sent if isinstance(each, Deliver)), Seen.DELIVER, now)

    def saw_run(self, run: Run, passed: Passed) -> None:
        now = self._clock()
        if now > self._until:
            self.is_on = False
            return
        is_published = run.kind is Publish
        if not is_published and not any(span.clients for span in passed.spans):
            return  # it only passes through
        events: list[EventKey] = [glimpse.id for glimpse in run.glimpses()]
        if is_published:
            self._book.note(events, Seen.PUBLISH, now)
        for span in passed.spans:
            if span.clients:
                self._book.note(events[span.start : span.end], Seen.DELIVER, now)
