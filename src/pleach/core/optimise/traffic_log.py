"""A broker's log of passing events: its ledger (ledger.py) and its cache (cache.py).

The ledger has for each event the sides that it came from and went to. It is bounded in time and size: if there are too
many events, it keeps those of a higher *level* (sightings.py), which are the same at every broker. A ledger is about
one tree: a broker that took part in a change of the tree begins a new one.

An event that came from a neighbour and went nowhere was for a local client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pleach.core.effects import Effect, Passed, Send
from pleach.core.messages import Deliver, Forward, Marked, Message, Node, Publish, PublishRefused
from pleach.core.messages.runs import Run
from pleach.core.optimise.cache import Bloom, Cache
from pleach.core.optimise.ledger import LOCAL, Sides
from pleach.core.optimise.sightings import LEVEL_MAX, ROOMY, EventKey, hash_of, level_of_hash

EVENTS_MAX = 2_048  # in a ledger
CACHE_EVENTS = 512  # decision 20: enough where ledgers decide (S1: 4,608)
LAG_SECONDS = 1.0  # younger events may not have reached every broker


class TrafficLog:
    """`window`: seconds that the ledger covers."""

    def __init__(self, window: float, now: float, *, events_max: int = EVENTS_MAX) -> None:
        self._window = window
        self._events_max = events_max
        self._since = now
        self._sides: dict[int, tuple[float, set[Node]]] = {}  # by hash of the event; the oldest first
        self._cache = Cache(CACHE_EVENTS)
        self.level = 0

    def __len__(self) -> int:
        return len(self._sides)

    @property
    def cache(self) -> Cache:
        return self._cache

    def age(self, now: float) -> float:
        """Seconds for which the ledger has all events of its level."""
        return min(self._window, now - self._since)

    def begin_anew(self, now: float) -> None:
        """The tree has changed at this broker: clear the ledger. The cache is about clients and stays."""
        self._sides.clear()
        self._since = now

    def summary(self) -> Bloom:
        return self._cache.summary()

    # Recording -------------------------------------------------------------------------------------------------

    def saw(self, sender: Node, message: Message | None, effects: Sequence[Effect], now: float) -> None:
        """The broker handled a message, or (None) a timer, with these effects."""
        sent = [effect for effect in effects if isinstance(effect, Send)]
        match message:
            case Publish(event) if not any(isinstance(each.message, PublishRefused) for each in sent):
                self.note([event.id], LOCAL, now)
            case Forward(event) | Marked(message=Forward(event)):
                self.note([event.id], sender, now)
        for to, said in ((each.to, each.message) for each in sent):
            match said:
                case Deliver(event):
                    self.note([event.id], LOCAL, now)
                case Forward(event) | Marked(message=Forward(event)):
                    self.note([event.id], to, now)

    def saw_run(self, sender: Node, run: Run, passed: Passed, now: float) -> None:
        events: list[EventKey] = [glimpse.id for glimpse in run.glimpses()]
        self.note(events, LOCAL if run.kind is Publish else sender, now)
        for span in passed.spans:
            for side in (*span.neighbours, *((LOCAL,) if span.clients else ())):
                self.note(events[span.start : span.end], side, now)

    def note(self, events: Iterable[EventKey], side: Node, now: float) -> None:
        for event in events:
            key = hash_of(event)
            if self.level and level_of_hash(key) < self.level:
                continue
            known = self._sides.get(key)
            if known is None:
                self._sides[key] = (now, {side})
            else:
                known[1].add(side)
            if side == LOCAL:
                self._cache.consumed(str(key))
        if len(self._sides) > self._events_max:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        self._forget(now)
        while len(self._sides) > self._events_max and self.level < LEVEL_MAX:
            self.level += 1
            self._sides = {key: entry for key, entry in self._sides.items() if level_of_hash(key) >= self.level}

    def _forget(self, now: float) -> None:
        sides = self._sides
        while sides and next(iter(sides.values()))[0] < now - self._window:
            del sides[next(iter(sides))]

    # Queries ---------------------------------------------------------------------------------------------------

    def relax(self, now: float) -> None:
        """Called periodically: lower the level, with a new ledger, where there is room for twice as many events."""
        self._forget(now)
        if self.level and ROOMY * len(self._sides) <= self._events_max and self.age(now) >= self._window:
            self.level -= 1
            self.begin_anew(now)

    def touching(self, beside: Sides, window: float, level: int, now: float) -> list[int]:
        """Events of the window that touch this broker, on a path where `beside` are its neighbours (ledger.py)."""
        self._forget(now)
        begin, end = now - window, now - LAG_SECONDS
        return [
            key
            for key, (at, sides) in self._sides.items()
            if begin <= at <= end and (len(sides) == 1 or sides - beside) and level_of_hash(key) >= level
        ]
