"""The recorder of one run. It has no clock: the driver gives the times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pleach.core.effects import Observe, Observed
from pleach.core.messages import Message, Node, encode
from pleach.trace.records import Record, RecordKind, attributes_text

KINDS = {observed: RecordKind(observed.value) for observed in Observed}


class Recorder:
    """Numbers each node's records from 1 in order of arrival and keeps all in the order in which they came.

    `kinds` says what to keep (None: everything). A driver asks `wants` before it prepares something costly. `give`:
    gets each record, which is then not kept.
    """

    def __init__(
        self,
        run: str,
        *,
        kinds: frozenset[RecordKind] | None = None,
        give: Callable[[Record], object] | None = None,
    ) -> None:
        self.run = run
        self.records: list[Record] = []
        self._give = give or self.records.append
        self._kinds = frozenset(RecordKind) if kinds is None else kinds
        self._counts: Counter[str] = Counter()

    def wants(self, kind: RecordKind) -> bool:
        return kind in self._kinds

    def observe(self, at: float, node: Node, seen: Observe) -> None:
        """Record an observation of a machine."""
        kind = KINDS[seen.kind]
        if kind not in self._kinds:
            return
        self.add(
            kind,
            at=at,
            node=node,
            client=node,
            event=str(seen.event.id) if seen.event else seen.event_id,
            attributes=attributes_text(seen.event.attributes) if seen.event else "",
            subscription=seen.subscription,
            filter=seen.filter,
            detail=seen.detail,
        )

    def sent(self, at: float, sender: Node, to: Node, message: Message) -> None:
        """Record a hop of a message, with its size on the wire."""
        kind = type(message).__name__
        self.add(RecordKind.SEND, at=at, node=sender, peer=to, message=kind, bytes=len(encode(message)))

    def add(
        self,
        kind: RecordKind,
        *,
        at: float,
        node: str,
        event: str = "",
        client: str = "",
        subscription: str = "",
        filter: str = "",  # noqa: A002 the column's name
        attributes: str = "",
        peer: str = "",
        message: str = "",
        bytes: int = 0,  # noqa: A002 the column's name
        detail: str = "",
    ) -> None:
        if kind not in self._kinds:
            return
        self._counts[node] = n = self._counts[node] + 1
        record = Record(
            self.run,
            at,
            node,
            n,
            kind,
            event,
            client,
            subscription,
            filter,
            attributes,
            peer,
            message,
            bytes,
            detail,
        )
        self._give(record)
