"""Delivery gaps of subscribers, from the trace alone.

A subscriber waits while an event that matches is published and not delivered. Its *gap* is the longest time that it
waited without any delivery. Time without matching events is not a gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.trace import Record, RecordKind


class Gap(NamedTuple):
    began_at: float
    ended_at: float
    client: Node

    @property
    def seconds(self) -> float:
        return self.ended_at - self.began_at


def spoken(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


NO_GAP = Gap(0.0, 0.0, "")


def gaps(records: Iterable[Record]) -> list[Gap]:
    """One per delivery that was waited for."""
    published: dict[str, float] = {}
    got: dict[Node, list[tuple[float, float]]] = defaultdict(list)  # client: (delivered, published) of each event
    for record in records:
        if record.kind == RecordKind.PUBLISH:
            published[record.event] = record.at
        elif record.kind == RecordKind.DELIVER and record.event in published:
            got[record.who].append((record.at, published[record.event]))
    return [gap for client in sorted(got) for gap in _of_one(client, got[client])]


def longest(found: Iterable[Gap], spans: Sequence[tuple[float, float]]) -> list[Gap]:
    """The longest one of each span of time. A gap belongs to the span that the larger part of it lies in."""
    chosen = [NO_GAP] * len(spans)
    for gap in found:
        shares = [min(gap.ended_at, end) - max(gap.began_at, start) for start, end in spans]
        most = max(range(len(spans)), key=shares.__getitem__)
        if shares[most] > 0:
            chosen[most] = max(chosen[most], gap, key=_seconds)
    return chosen


def longest_of_all(found: Iterable[Gap]) -> Gap:
    return max(found, key=_seconds, default=NO_GAP)


def _seconds(gap: Gap) -> float:
    return gap.seconds


def _of_one(client: Node, got: Sequence[tuple[float, float]]) -> Iterator[Gap]:
    """`oldest`: when the oldest event was published that had not come before this delivery."""
    oldest = [*accumulate((published for _, published in reversed(got)), min)][::-1]
    before = 0.0
    for (delivered, _), waited_since in zip(got, oldest, strict=True):
        began = max(before, waited_since)
        if began < delivered:
            yield Gap(began, delivered, client)
        before = delivered
