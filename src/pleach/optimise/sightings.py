"""What brokers see of common traffic, and what follows from it: which events touch which brokers' clients.

A broker notes the events that its own clients publish and get, nothing else. Put together by the events' ids, the notes
of all brokers tell the flows, and how long events took. A broker has room for so many notes only. If there are more it
keeps half of them, those of a higher *level*, and then half of those:

    level of an event = zero bits that the hash of its id begins with   0 and up: all; 1 and up: every 2nd; 2: every 4th

The hash is the same everywhere: at a level that all brokers have kept, the notes are complete, so that an event is
known with all of its brokers or not at all (as in `ledger.py`, but nobody has to agree on a share beforehand).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from math import fsum
from typing import NamedTuple, TypeAlias
from zlib import crc32

from pleach.messages import Node
from pleach.optimise.cost import Flow

NOTES_MAX = 4_096  # of one broker
NOTE_SECONDS_MAX = 60.0  # whoever wants to know has asked by then
LEVEL_MAX = 31
ROOMY = 4  # a broker that uses no more than this part of its notes goes back by a level

_HASH_BITS = 32
_HASH_MAX = 0xFFFFFFFF
_SPREAD = 0x9E3779B1  # odd: a product with it spreads what crc32, being linear, leaves in rows

EventKey: TypeAlias = tuple[str, int, int]  # publisher, incarnation, sequence


class Seen(StrEnum):
    """What a client of the broker did; the names are the trace's."""

    PUBLISH = "publish"
    DELIVER = "deliver"


class Note(NamedTuple):
    """`event` as traces spell it. `at`: seconds, by the clock of who holds the note."""

    event: str
    seen: Seen
    at: float


class Report(NamedTuple):
    """What one broker has noted since it was asked last. All of this level and above is there."""

    broker: Node
    level: int
    notes: tuple[Note, ...]


class Pick(NamedTuple):
    """The flows of a sample: one in so many events of all that there were."""

    flows: tuple[Flow, ...]
    one_in: int

    @property
    def events(self) -> float:
        """Of the sample."""
        return fsum(flow.events for flow in self.flows)


def level_of(event: EventKey) -> int:
    publisher, incarnation, sequence = event
    hashed = crc32(b"%d/%d" % (incarnation, sequence), crc32(publisher.encode()))
    return _HASH_BITS - (hashed * _SPREAD & _HASH_MAX).bit_length()


def spelled_level(event: str) -> int:
    publisher, incarnation, sequence = event.rsplit("/", 2)
    return level_of((publisher, int(incarnation), int(sequence)))


# At a broker ---------------------------------------------------------------------------------------------------------


class Notebook:
    """The notes of one broker: the latest, and never more than there is room for."""

    def __init__(self, notes_max: int = NOTES_MAX) -> None:
        self.level = 0
        self._notes_max = notes_max
        self._notes: dict[tuple[EventKey, Seen], tuple[int, float]] = {}  # number and time; the oldest first
        self._number = 0

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, events: Iterable[EventKey], seen: Seen, now: float) -> None:
        """An event that several clients get is noted once."""
        for event in events:
            if self.level and level_of(event) < self.level:
                continue
            self._number += 1
            self._notes.setdefault((event, seen), (self._number, now))
        if len(self._notes) > self._notes_max:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        self._forget_before(now - NOTE_SECONDS_MAX)
        while len(self._notes) > self._notes_max and self.level < LEVEL_MAX:
            self.level += 1
            self._notes = {key: note for key, note in self._notes.items() if level_of(key[0]) >= self.level}

    def _forget_before(self, time: float) -> None:
        while self._notes and next(iter(self._notes.values()))[1] < time:
            del self._notes[next(iter(self._notes))]

    def told(self, broker: Node, after: int, now: float) -> tuple[Report, int]:
        """What there is after a number, with ages instead of times; and the number to ask with the next time.

        A number that is not known yet is that of a former life of the broker: all there is, then.
        """
        self._forget_before(now - NOTE_SECONDS_MAX)
        after = after if after <= self._number else 0
        notes = tuple(
            Note("/".join(map(str, event)), seen, max(0.0, now - at))
            for (event, seen), (number, at) in self._notes.items()
            if number > after
        )
        report = Report(broker, self.level, notes)
        if self.level and ROOMY * len(self._notes) <= self._notes_max:
            self.level -= 1
        return report, self._number


# Where notes come together -------------------------------------------------------------------------------------------


class Sighting(NamedTuple):
    """A note with its broker; `at` by the clock of who has asked."""

    event: str
    broker: Node
    seen: Seen
    at: float
    level: int  # that the broker had kept all of

    @classmethod
    def all_of(cls, report: Report, *, now: float) -> list[Sighting]:
        """`now`: when the ages of its notes counted from."""
        return [cls(note.event, report.broker, note.seen, now - note.at, report.level) for note in report.notes]


class Journal(NamedTuple):
    """One event as all brokers saw it."""

    event: str
    publisher: Node
    at: float  # when it was published
    delivered: tuple[tuple[Node, float], ...]  # where, and when first, without the publisher's own broker


def journals(sightings: Iterable[Sighting]) -> Iterator[Journal]:
    """Of all events whose publisher's broker has told; in the order of their ids."""
    published: dict[str, tuple[Node, float]] = {}
    delivered: dict[str, dict[Node, float]] = {}
    for each in sightings:
        if each.seen is Seen.PUBLISH:
            published[each.event] = (each.broker, each.at)
        else:
            places = delivered.setdefault(each.event, {})
            places[each.broker] = min(each.at, places.get(each.broker, each.at))
    for event, (publisher, at) in sorted(published.items()):
        places = delivered.get(event, {})
        yield Journal(event, publisher, at, tuple(sorted((who, at) for who, at in places.items() if who != publisher)))


def picked(sightings: Sequence[Sighting], since: float, until: float) -> Pick:
    """The flows of the events that were published between two moments, at the level that all brokers have kept."""
    level = max((each.level for each in sightings), default=0)
    chosen = (each for each in sightings if spelled_level(each.event) >= level) if level else sightings
    counts = Counter(
        (each.publisher, frozenset(who for who, _ in each.delivered))
        for each in journals(chosen)
        if since <= each.at < until
    )
    flows = (Flow(publisher, others, float(events)) for (publisher, others), events in counts.items())
    return Pick(tuple(sorted(flows, key=in_order)), 1 << level)


def in_order(flow: Flow) -> tuple[Node, list[Node]]:
    return flow.publisher, sorted(flow.subscribers)


def seconds_taken(sightings: Iterable[Sighting], since: float, until: float) -> list[float]:
    """From publishers' brokers to those of subscribers, one for each broker that an event went to."""
    return [
        max(0.0, at - each.at) for each in journals(sightings) if since <= each.at < until for _, at in each.delivered
    ]
