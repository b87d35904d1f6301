"""Forwarding of runs of events, with a cache of receivers by encoded attributes.

Events tend to repeat the attributes of earlier ones (a topic, a symbol). The receivers are then the same until somebody
subscribes, attaches or connects, and need no decoding, checking or matching. Whoever changes routing calls `forget`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from pleach.core.effects import Passed, Send
from pleach.core.events.event import EVENT_BYTES_MAX, EventId, check_attributes, check_id
from pleach.core.messages import Node, Published
from pleach.core.messages.runs import Glimpse, Span
from pleach.core.routing.clients import ClientTable, Receivers
from pleach.errors import EventError

ROUTES_MAX = 8_192  # cached, over all senders
KEY_BYTES_MAX = 256  # of attributes that are cached

_decode_attributes = msgspec.msgpack.Decoder(dict[str, Any]).decode


_NOT_YET = Receivers((), (), frozenset())  # of no event: compared by `is`


class _Route(NamedTuple):
    receivers: Receivers | None  # None: such an event is refused, or not the same for all
    payload_bytes_max: int  # for an event with these attributes


class RunForwarding:
    def __init__(self, sessions: ClientTable) -> None:
        self._sessions = sessions
        self._routes: dict[Node, dict[bytes, _Route]] = {}  # by sender, then by attributes
        self._count = 0
        self._known: dict[Receivers, Receivers] = {}  # equal receivers are one object, compared by `is`

    def forget(self) -> None:
        if self._routes:
            self._routes.clear()
            self._known.clear()
            self._count = 0

    def forwarded(self, neighbour: Node, glimpses: Sequence[Glimpse]) -> Passed | None:
        """Events from a neighbour; None where not all receivers get the same. Raises EventError for an invalid one."""
        spans = self._spans(neighbour, glimpses)
        return None if spans is None else Passed(spans, [])

    def published(self, client: Node, glimpses: Sequence[Glimpse]) -> Passed | None:
        """Events of an attached client; None where one of them may have to be refused."""
        publisher, incarnation, first = glimpses[0].id
        last = EventId(publisher, incarnation, first + len(glimpses) - 1)
        if publisher != client:
            return None
        for sequence, glimpse in enumerate(glimpses, first):
            if glimpse.id != (publisher, incarnation, sequence):
                return None
        try:
            check_id(EventId(publisher, incarnation, first))
            check_id(last)
            spans = self._spans(client, glimpses)
        except EventError:
            return None
        if spans is None:
            return None
        return Passed(spans, [Send(client, Published(last, len(glimpses)))])

    def _spans(self, sender: Node, glimpses: Sequence[Glimpse]) -> list[Span] | None:
        routes = self._routes.setdefault(sender, {})
        spans: list[Span] = []
        start, current = 0, _NOT_YET
        for place, glimpse in enumerate(glimpses):
            key = bytes(glimpse.attributes)
            receivers, payload_bytes_max = routes.get(key) or self._learn(sender, key)
            if len(glimpse.payload) > payload_bytes_max:
                raise EventError(f"event {glimpse.id}: too large")
            if receivers is not current:
                if receivers is None:
                    return None
                spans += _split(start, place, current, glimpses)
                start, current = place, receivers
        spans += _split(start, len(glimpses), current, glimpses)
        return spans

    def _learn(self, sender: Node, key: bytes) -> _Route:
        attributes = _decode_attributes(key)
        payload_bytes_max = EVENT_BYTES_MAX - check_attributes(attributes)
        if self._count >= ROUTES_MAX or len(self._known) >= ROUTES_MAX:
            self.forget()
        receivers = self._sessions.receivers(attributes, sender)
        known = None if receivers is None else self._known.setdefault(receivers, receivers)
        route = _Route(known, payload_bytes_max)
        if len(key) <= KEY_BYTES_MAX:
            self._routes.setdefault(sender, {})[key] = route
            self._count += 1
        return route


def _split(start: int, end: int, receivers: Receivers, glimpses: Sequence[Glimpse]) -> Iterator[Span]:
    """One span, or several where some events belong to a client that does not want its own events."""
    if start == end:
        return
    neighbours, clients, not_own = receivers
    if not not_own:
        yield Span(start, end, neighbours, clients)
        return
    publishers = (glimpse.id[0] for glimpse in glimpses[start:end])
    for unwilling, stretch in groupby(publisher if publisher in not_own else None for publisher in publishers):
        count = len(list(stretch))
        yield Span(start, start + count, neighbours, receivers.clients_but(unwilling))
        start += count
