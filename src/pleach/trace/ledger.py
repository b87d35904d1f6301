"""State of the oracle during its second pass: publications, subscriptions, clients.

A *subscription* here is one interval from `subscribe` to `unsubscribe_ack`; an id used again starts another.

    subscribe ────── subscribe_ack ────── unsubscribe ────── unsubscribe_ack
    │ may get events │ is owed events     │ may get events   │
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from pleach.errors import TraceError
from pleach.trace.records import Record

Mark = tuple[int, int]  # (incarnation, sequence): rises with each event of a publisher
Past = dict[str, Mark]  # per publisher the highest mark that is known

NO_OWN = "no-own"  # in the detail of `subscribe`: the client does not want its own events
NEVER: Mark = (-1, -1)


@dataclass(slots=True, eq=False)
class SubscriptionSpan:
    client: str
    name: str
    filter: str
    own: bool  # also wants the client's own events
    asked: int  # indices of its records
    unanswered: int = 1  # requests for it without an acknowledgement: asking again brings one more
    acknowledged: int | None = None
    ended: int | None = None
    over: int | None = None  # its unsubscribe_ack
    highest: Past = field(default_factory=dict)  # of the matching events that the client got before it unsubscribed

    def wants_from(self, publisher: str) -> bool:
        return self.own or publisher != self.client


@dataclass(slots=True, eq=False)
class PublishedEvent:
    event: str
    publisher: str
    mark: Mark
    index: int
    at: float
    attributes: str
    matching: frozenset[str]  # texts of the filters that match it
    past: Past  # the causal past of its publisher when it published
    deliveries_left: int  # after the last one `past` is dropped
    got: set[str]  # clients; also those that got an earlier attempt with this id
    owed: list[SubscriptionSpan] = field(default_factory=list)
    acknowledged: bool = False
    failed: bool = False
    accepted: int | None = None  # index of its acknowledgement or first delivery: from then on the network has it
    accepted_at: float = math.inf

    def accept(self, index: int, at: float) -> None:
        if self.accepted is None:
            self.accepted, self.accepted_at = index, at


class LedgerEntry(Protocol):
    """The causal past that a client gains with an event."""

    @property
    def event(self) -> str: ...

    @property
    def publisher(self) -> str: ...

    @property
    def mark(self) -> Mark: ...

    @property
    def past(self) -> Past: ...


@dataclass(slots=True, eq=False)
class ClientHistory:
    name: str
    open: dict[str, list[SubscriptionSpan]] = field(default_factory=dict)  # by filter, until their unsubscribe_ack
    last: dict[str, PublishedEvent] = field(default_factory=dict)  # per publisher the highest event that it got
    past: Past = field(default_factory=dict)
    learnt_from: dict[str, str] = field(default_factory=dict)  # per publisher the event from which `past` has it
    merged: dict[str, Past] = field(default_factory=dict)  # per publisher the past that was merged last
    snapshot: Past | None = None  # a copy of `past` for its next publication, while nothing was learnt

    def current_past(self) -> Past:
        if self.snapshot is None:
            self.snapshot = self.past.copy()
        return self.snapshot

    def learn(self, publication: LedgerEntry) -> None:
        """The event and its causal past are now in the client's past."""
        past, publisher = self.past, publication.publisher
        if publication.past is not self.merged.get(publisher):  # a publisher that gets nothing has always the same past
            self.merged[publisher] = publication.past
            for other, mark in publication.past.items():
                if mark > past.get(other, NEVER):
                    past[other] = mark
                    self.learnt_from[other] = publication.event
        if publication.mark > past.get(publisher, NEVER):
            past[publisher] = publication.mark
            self.learnt_from[publisher] = publication.event
        self.snapshot = None


class ClientStates:
    """All clients, and all subscriptions by their phase."""

    def __init__(self) -> None:
        self._clients: dict[str, ClientHistory] = {}
        self._stretches: dict[tuple[str, str], list[SubscriptionSpan]] = defaultdict(
            list
        )  # by client and id, unfinished
        self._owing: dict[str, dict[SubscriptionSpan, None]] = defaultdict(dict)  # by filter: acknowledged, not ended
        self.subscribed = 0

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def open_filters(self) -> set[str]:
        """Of subscriptions that may get events."""
        return {text for client in self._clients.values() for text in client.open}

    def client(self, name: str) -> ClientHistory:
        found = self._clients.get(name)
        if found is None:
            found = self._clients[name] = ClientHistory(name)
        return found

    def owing(self, matching: frozenset[str], publisher: str) -> Iterator[SubscriptionSpan]:
        """The subscriptions to which an event is owed that is published now."""
        for text in sorted(matching & self._owing.keys()):
            yield from (taken for taken in self._owing[text] if taken.wants_from(publisher))

    def subscribe(self, index: int, record: Record) -> SubscriptionSpan | None:
        """Subscribing again with the same filter has no effect; another filter under the same id cannot be judged."""
        stretches = self._stretches[_key(record)]
        if stretches and stretches[-1].ended is None:
            if stretches[-1].filter == record.filter:
                stretches[-1].unanswered += 1
                return None
            raise TraceError(
                f"record {index}: client {record.who!r} uses subscription {record.subscription!r} "
                f"for another filter without an unsubscribe between"
            )
        own = NO_OWN not in record.detail.split()
        taken = SubscriptionSpan(record.who, record.subscription, record.filter, own, index)
        stretches.append(taken)
        self.client(record.who).open.setdefault(record.filter, []).append(taken)
        self.subscribed += 1
        return taken

    def acknowledge(self, index: int, record: Record) -> bool:
        """Acknowledgements come in the order of the requests: this one is for the oldest that has none.

        If one never came, a later interval counts as not acknowledged, which avoids false alarms.
        """
        stretches = self._stretches.get(_key(record), ())
        for taken in stretches:
            if taken.unanswered:
                taken.unanswered -= 1
                self._acknowledged(taken, index)
                return True
        return bool(stretches)

    def _acknowledged(self, taken: SubscriptionSpan, index: int) -> None:
        if taken.acknowledged is not None:
            return
        taken.acknowledged = index
        if taken.ended is None:
            self._owing[taken.filter][taken] = None

    def unsubscribe(self, index: int, record: Record) -> bool:
        stretches = self._stretches.get(_key(record))
        if not stretches or stretches[-1].ended is not None:
            return False
        taken = stretches[-1]
        taken.ended = index
        owing = self._owing[taken.filter]
        owing.pop(taken, None)
        if not owing:
            del self._owing[taken.filter]
        return True

    def end(self, index: int, record: Record) -> bool:
        """An `unsubscribe_ack`: it ends the oldest interval that waits for one.

        Requests under one id are handled in order, so the oldest has ended even if the answer is for a later one.
        """
        key = _key(record)
        stretches = self._stretches.get(key)
        if not stretches or stretches[0].ended is None:
            return False
        taken = stretches.pop(0)
        taken.over = index
        if not stretches:
            del self._stretches[key]
        holder = self.client(taken.client).open
        holder[taken.filter].remove(taken)
        if not holder[taken.filter]:
            del holder[taken.filter]
        return True


def _key(record: Record) -> tuple[str, str]:
    return record.who, record.subscription or record.filter
