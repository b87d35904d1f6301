"""A broker that is dead for good gets a stand-in (docs/protocols/healing.md).

driver ── StandFor ──▶ stand-in ◀── Testimony ── neighbours of the dead broker ◀── Bereaved ── driver
                          ▲ └── Pooled ──▶ stand-ins next to it
                          └── Returning ── clients of the dead broker
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.messages.base import Message, Node
from pleach.core.messages.swaplink import TableEntries


class Got(msgspec.Struct, frozen=True, tag=1, array_like=True, gc=False):
    """The event came over the link from the broker that is dead now."""

    event: EventId


class Sent(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """The event was sent to that broker, which has not confirmed it."""

    event: Event


JournalEntry: TypeAlias = Got | Sent


def _unconfirmed(entries: list[JournalEntry]) -> list[Event]:
    return [entry.event for entry in entries if isinstance(entry, Sent)]


class StandFor(Message, frozen=True, tag=144):
    """Stand in for the dead broker of your name. `parent`: its neighbour towards the root, if it had one."""

    neighbours: list[Node]
    parent: Node = ""


class Bereaved(Message, frozen=True, tag=145):
    """A neighbour is dead for good and has a stand-in; `marks` and `entries` are the journal of the link to it.

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
    """All that the neighbour `witness` knows of the dead broker `about`.

    told, has   what the dead broker had in its tables from the witness, and the witness from it
    marks       per publisher the highest event that came from it before all entries
    entries     what went to it unconfirmed, and what came from it meanwhile, in order
    heard       per publisher the highest event that the witness has got, or has been told of beside what it got
    is_linked   else the tree was changing, and they are no neighbours, or not any more: only the journal counts
    beyond      the broker between them then
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
    """To a witness: the stand-in serves, and has taken over what the testimony said."""


class Pooled(Message, frozen=True, tag=148):
    """What a stand-in has gathered, for one next to it: the dead brokers, their neighbours, and the testimonies."""

    members: list[tuple[Node, list[Node]]]
    testimonies: list[Testimony]

    @property
    def events(self) -> Sequence[Event]:
        return [event for testimony in self.testimonies for event in testimony.events]


class Returning(Message, frozen=True, tag=9):
    """A client of the dead broker is there: what it has, and per publisher the highest event that it got.

    `heard`: see `Testimony`.
    """

    own_events: bool
    marks: list[EventId]
    subscriptions: dict[str, Filter]
    advertisements: dict[str, Filter]
    heard: list[EventId] = msgspec.field(default_factory=list)


HealingMessage: TypeAlias = StandFor | Bereaved | Testimony | Served | Pooled | Returning
