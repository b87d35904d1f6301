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

from pleach.core.messages import Node
from pleach.core.optimise.cost import Flow

NOTES_MAX = 4_096  # of one broker
NOTE_SECONDS_MAX = 60.0  # whoever wants to know has asked by then
LEVEL_MAX = 31
CHANGES_MAX = 64  # of level, that a broker remembers
ROOMY = 4  # a broker that uses no more than this part of its notes goes back by a level

HASH_BITS = 32
HASH_MAX = 0xFFFFFFFF
SPREAD = 0x45D9F3B  # odd: a product with it spreads what crc32 leaves in rows; and it fits into 63 bits

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


def hash_of(event: EventKey) -> int:
    publisher, incarnation, sequence = event
    return crc32(b"/%d/%d" % (incarnation, sequence), crc32(publisher.encode()))


def level_of(event: EventKey) -> int:
    return level_of_hash(hash_of(event))


def spelled_level(event: str) -> int:
    """The same, of an event's id as text: crc32 goes on where it was."""
    return level_of_hash(crc32(event.encode()))


def level_of_hash(hashed: int) -> int:
    return HASH_BITS - (hashed * SPREAD & HASH_MAX).bit_length()


# At a broker ---------------------------------------------------------------------------------------------------------


class SightingLog:
    """The notes of one broker: the latest, and never more than there is room for."""

    def __init__(self, notes_max: int = NOTES_MAX) -> None:
        self._notes_max = notes_max
        self._levels = [(0, 0)]  # what was kept, from which number on; the latest last
        self._notes: dict[tuple[EventKey, Seen], tuple[int, float]] = {}  # number and time; the oldest first
        self._number = 0

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def level(self) -> int:
        return self._levels[-1][1]

    def note(self, events: Iterable[EventKey], seen: Seen, now: float) -> None:
        """An event that several clients get is noted once."""
        level = self.level
        for event in events:
            if level and level_of(event) < level:
                continue
            self._number += 1
            self._notes.setdefault((event, seen), (self._number, now))
        if len(self._notes) > self._notes_max:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        self._forget_before(now - NOTE_SECONDS_MAX)
        while len(self._notes) > self._notes_max and self.level < LEVEL_MAX:
            self._change_level(self.level + 1)
            self._notes = {key: note for key, note in self._notes.items() if level_of(key[0]) >= self.level}

    def _change_level(self, level: int) -> None:
        self._levels.append((self._number, level))
        if len(self._levels) > CHANGES_MAX:  # of long ago only the highest is remembered
            (first, one), (_, other), *rest = self._levels
            self._levels = [(first, max(one, other)), *rest]

    def _level_since(self, number: int) -> int:
        """All notes after a number are there that have this level."""
        ends = [*(begin for begin, _ in self._levels[1:]), self._number + 1]
        return max(level for (_, level), end in zip(self._levels, ends, strict=True) if end > number)

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
        report = Report(broker, self._level_since(after), notes)
        if self.level and ROOMY * len(self._notes) <= self._notes_max:
            self._change_level(self.level - 1)
        return report, self._number


# Where notes come together -------------------------------------------------------------------------------------------


class Sighting(NamedTuple):
    """A note with its broker; `at` by the clock of who has asked."""

    event: str
    broker: Node
    seen: Seen
    at: float
    level: int  # that all brokers had kept, when they were asked

    @classmethod
    def all_of(cls, reports: Sequence[tuple[Report, float]]) -> list[Sighting]:
        """Of one look, with the moments from which the ages of their notes count.

        The level is that of all reports together: one without notes says, too, what its broker has not kept.
        """
        level = max((report.level for report, _ in reports), default=0)
        return [
            cls(note.event, report.broker, note.seen, now - note.at, level)
            for report, now in reports
            for note in report.notes
        ]


class EventSightings(NamedTuple):
    """One event as all brokers saw it."""

    event: str
    publisher: Node
    at: float  # when it was published
    delivered: tuple[tuple[Node, float], ...]  # where, and when first, without the publisher's own broker


def journals(sightings: Iterable[Sighting]) -> Iterator[EventSightings]:
    """Of all events whose publisher's broker has told; in the order of their ids."""
    published: dict[str, tuple[Node, float]] = {}
    delivered: dict[str, dict[Node, float]] = {}
    for each in sightings:
        if each.seen is Seen.PUBLISH:
            published[each.event] = max((each.broker, each.at), published.get(each.event, (each.broker, each.at)))
        else:
            places = delivered.setdefault(each.event, {})
            places[each.broker] = min(each.at, places.get(each.broker, each.at))
    for event, (publisher, at) in sorted(published.items()):
        places = delivered.get(event, {})
        yield EventSightings(
            event, publisher, at, tuple(sorted((who, at) for who, at in places.items() if who != publisher))
        )


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
