"""Notes on the events that this broker's own clients publish and get, for whoever asks for them (`/traffic`).

Programs that improve the tree ask every few seconds. When nobody has asked for a while, nothing is noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pleach.core.effects import Effect, Passed, Send
from pleach.core.messages import Deliver, Message, Node, Publish, PublishRefused
from pleach.core.messages.runs import Run
from pleach.core.optimise.sightings import NOTE_SECONDS_MAX, EventKey, Report, Seen, SightingLog
from pleach.server.feature import Feature

WATCHED_SECONDS = NOTE_SECONDS_MAX  # after somebody has asked


class TrafficNotes(Feature):
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._book = SightingLog()
        self._until = 0.0
        self.is_on = False

    def report(self, broker: Node, after: int) -> tuple[Report, int]:
        """Notes after a number. Events are noted for a while after this call."""
        now = self._clock()
        self._until, self.is_on = now + WATCHED_SECONDS, True
        return self._book.told(broker, after, now)

    def _is_wanted(self, now: float) -> bool:
        self.is_on = now <= self._until
        return self.is_on

    def message_handled(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        if self.is_on:
            self._note(message, effects)

    def timer_handled(self, effects: Sequence[Effect], now: float) -> None:
        if self.is_on:
            self._note(None, effects)

    def _note(self, message: Message | None, effects: Sequence[Effect]) -> None:
        now = self._clock()
        if not self._is_wanted(now):
            return
        sent = [effect.message for effect in effects if isinstance(effect, Send)]
        if isinstance(message, Publish) and not any(isinstance(each, PublishRefused) for each in sent):
            self._book.note([message.event.id], Seen.PUBLISH, now)
        self._book.note((each.event.id for each in sent if isinstance(each, Deliver)), Seen.DELIVER, now)

    def run_handled(self, sender: Node, run: Run, passed: Passed) -> None:
        if not self.is_on or not self._is_wanted(now := self._clock()):
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
