"""Messages by which a stand-in replaces a broker that has failed for good (docs/protocols/healing.md).

driver ── StandFor ──▶ stand-in ◀── Testimony ── neighbours of the dead broker ◀── Bereaved ── driver
                          ▲ └── Pooled ──▶ stand-ins next to it
                          └── Returning ── clients of the dead broker
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.messages.base import Message, Node
from pleach.core.messages.swaplink import TableEntries


class Got(msgspec.Struct, frozen=True, tag=1, array_like=True, gc=False):
    """The event was received from the broker that is dead now."""

    event: EventId


class Sent(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """The event was sent to that broker, and not confirmed."""

    event: Event


JournalEntry: TypeAlias = Got | Sent
NamedFilters: TypeAlias = Annotated[dict[str, Filter], msgspec.Meta(max_length=10_000)]  # of one client


def _unconfirmed(entries: list[JournalEntry]) -> list[Event]:
    return [entry.event for entry in entries if isinstance(entry, Sent)]


class StandFor(Message, frozen=True, tag=144):
    """Stand in for the dead broker of your name. `parent`: its neighbour towards the root, if it had one."""

    neighbours: list[Node]
    parent: Node = ""


class Bereaved(Message, frozen=True, tag=145):
    """From the driver: a neighbour is dead and has a stand-in. `marks`, `entries`: the journal of the link to it.

    `heard`: see `Testimony`.
    """

    peer: Node
    marks: list[EventId]
    entries: list[JournalEntry]
    heard: list[EventId] = msgspec.field(default_factory=list)

    @property
    def events(self) -> Sequence[Event]:
        return _unconfirmed(self.entries)


class Testimony(Message, frozen=True, tag=146):
    """Everything that the neighbour `witness` knows of the dead broker `about`.

    told, has   the dead broker's table entries from the witness, and the witness's from it
    marks       per publisher the last event that came from it before all entries
    entries     events sent to it and not confirmed, and events received from it meanwhile, in order
    heard       per publisher the last event that the witness has received, or knows of by other messages
    is_linked   false while a reconfiguration had parted the two: then only the journal counts, and
    beyond      is the broker that was between them
    """

    witness: Node
    about: Node
    told: list[TableEntries]
    has: list[TableEntries]
    marks: list[EventId]
    entries: list[JournalEntry]
    heard: list[EventId] = msgspec.field(default_factory=list)
    is_linked: bool = True
    beyond: Node = ""

    @property
    def events(self) -> Sequence[Event]:
        return _unconfirmed(self.entries)


class Served(Message, frozen=True, tag=147):
    """To a witness: the stand-in is in service, and has used the testimony."""


class Pooled(Message, frozen=True, tag=148):
    """To an adjacent stand-in: the dead brokers, their neighbours, and the testimonies collected so far."""

    members: list[tuple[Node, list[Node]]]
    testimonies: list[Testimony]

    @property
    def events(self) -> Sequence[Event]:
        return [event for testimony in self.testimonies for event in testimony.events]


class Returning(Message, frozen=True, tag=9):
    """A client of the dead broker returns: its requests, and per publisher the last event that it received.

    `heard`: see `Testimony`. `again`: the last of its own events that it sends again, if any, as the dead broker
    had not confirmed it.
    """

    own_events: bool
    marks: list[EventId]
    subscriptions: NamedFilters
    advertisements: NamedFilters
    heard: list[EventId] = msgspec.field(default_factory=list)
    again: list[EventId] = msgspec.field(default_factory=list)


HealingMessage: TypeAlias = StandFor | Bereaved | Testimony | Served | Pooled | Returning
