"""Collects the records of one run. It has no clock: the driver says when things happened."""

from __future__ import annotations

from collections import Counter

from pleach.trace.records import Record, RecordKind


class Recorder:
    """Numbers each node's records from 1 in order of arrival and keeps all in the order in which they came.

    `kinds` says what to keep (None: everything). A driver asks `wants` before it prepares something costly.
    """

    def __init__(self, run: str, *, kinds: frozenset[RecordKind] | None = None) -> None:
        self.run = run
        self.records: list[Record] = []
        self._kinds = frozenset(RecordKind) if kinds is None else kinds
        self._counts: Counter[str] = Counter()

    def wants(self, kind: RecordKind) -> bool:
        return kind in self._kinds

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
        self.records.append(record)
