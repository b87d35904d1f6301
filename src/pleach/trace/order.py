"""The total order of a run's records.

Rule 1: records are ordered by `at`.
Rule 2: within one instant, by their place in the files (files by path, rows as written), where that agrees
        with rules 3 and 4; a trace written in order of arrival is therefore read back in that order.
Rule 3: records of one node are ordered by `n`.
Rule 4: what became of an event comes after its publication.

Where `at` contradicts `n` there is no such order; the oracle refuses that trace.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from pleach.trace.records import Record, RecordKind

FOLLOWS_PUBLICATION = frozenset({RecordKind.DELIVER, RecordKind.PUBLISH_ACK, RecordKind.PUBLISH_FAIL})


def total_order(records: Iterable[Record]) -> list[Record]:
    """The records of one run, given in the order of files and rows, in their total order."""
    by_time = sorted(records, key=attrgetter("at"))
    ordered: list[Record] = []
    for _, instant in groupby(by_time, key=attrgetter("at")):
        together = list(instant)
        ordered.extend(together if _agrees(together) else _untangled(together))
    return ordered


def _agrees(instant: Sequence[Record]) -> bool:
    """True if the order given obeys rules 3 and 4."""
    if len(instant) == 1:
        return True
    last: dict[str, int] = {}
    awaited = _published(instant)
    for record in instant:
        if record.n < last.get(record.node, record.n) or _waits(record, awaited):
            return False
        last[record.node] = record.n
        _release(record, awaited)
    return True


def _untangled(instant: Sequence[Record]) -> list[Record]:
    """Always the first record in the files that rules 3 and 4 let go next."""
    queues: dict[str, deque[tuple[int, Record]]] = defaultdict(deque)
    for place, record in sorted(enumerate(instant), key=lambda item: item[1].n):
        queues[record.node].append((place, record))
    awaited = _published(instant)
    ordered: list[Record] = []
    while queues:
        heads = sorted((queue[0] for queue in queues.values()), key=lambda head: head[0])
        # If all wait for each other the instant contradicts itself: the oracle will see effect before cause.
        record = next((record for _, record in heads if not _waits(record, awaited)), heads[0][1])
        queues[record.node].popleft()
        if not queues[record.node]:
            del queues[record.node]
        _release(record, awaited)
        ordered.append(record)
    return ordered


def _published(instant: Sequence[Record]) -> set[str]:
    return {record.event for record in instant if record.kind == RecordKind.PUBLISH}


def _waits(record: Record, awaited: set[str]) -> bool:
    return record.kind in FOLLOWS_PUBLICATION and record.event in awaited


def _release(record: Record, awaited: set[str]) -> None:
    if record.kind == RecordKind.PUBLISH:
        awaited.discard(record.event)
