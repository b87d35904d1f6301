"""The first pass over a trace: whether it is in order, and facts about its end that the second pass needs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pleach.errors import TraceError
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Ordering

KINDS = frozenset(RecordKind)
SETTING = re.compile(r"\b(stabilises|flight|since|ordering)=([^\s,;]*)")


@dataclass(frozen=True, slots=True)
class Suspension:
    """A fault that corrupts state: nothing that falls into [start, end] is judged.

    `flight` is the longest time that an accepted event may be in flight: events accepted at most that long before the
    fault, or later, may be lost in it. The end of a disturbance that has kept the network from mending says since when.
    """

    start: float
    end: float
    flight: float

    def covers(self, at: float) -> bool:
        return self.start <= at <= self.end

    def may_lose(self, published_at: float, accepted_at: float) -> bool:
        return published_at <= self.end and self.start - self.flight <= accepted_at


@dataclass(slots=True)
class FirstPass:
    run: str
    ordering: Ordering | None = None
    suspensions: list[Suspension] = field(default_factory=list)
    deliveries: Counter[str] = field(default_factory=Counter)  # per event
    published: set[str] = field(default_factory=set)
    filters: set[str] = field(default_factory=set)
    final_drain: int = -1  # index of the last drain, -1 without any
    last_publication: int = -1


def survey(records: Sequence[Record]) -> FirstPass:
    """Raises TraceError where the records cannot be judged at all."""
    if not records:
        raise TraceError("the trace has no records")
    check = OrderCheck(records[0].run)
    for index, record in enumerate(records):
        check(index, record)
    found = FirstPass(records[0].run)
    for index, record in enumerate(records):
        note(found, index, record)
    return found


class OrderCheck:
    """Checks the records of one run one by one; raises TraceError at the first that is out of order."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._now = -math.inf
        self._last: dict[str, int] = {}

    def __call__(self, index: int, record: Record) -> None:
        if record.kind not in KINDS:
            raise TraceError(f"record {index}: kind {record.kind!r} is unknown; {', '.join(RecordKind)} are known")
        if record.run != self._run:
            raise TraceError(f"record {index} is of run {record.run!r}, not {self._run!r}: judge one run at a time")
        if not self._now <= record.at < math.inf:
            raise TraceError(
                f"record {index} is at {record.at} after one at {self._now}: put the records in total order"
            )
        if record.n < self._last.get(record.node, record.n):
            raise TraceError(
                f"record {index}: node {record.node!r} wrote n = {record.n} after n = {self._last[record.node]}, "
                f"but the times say otherwise; which came first cannot be told"
            )
        self._now = record.at
        self._last[record.node] = record.n


def note(found: FirstPass, index: int, record: Record) -> None:
    """Takes the records in order; raises TraceError at settings that make no sense."""
    match record.kind:
        case RecordKind.DELIVER:
            found.deliveries[record.event] += 1
        case RecordKind.PUBLISH:
            found.published.add(record.event)
            found.last_publication = index
        case RecordKind.SUBSCRIBE:
            found.filters.add(record.filter)
        case RecordKind.DRAIN:
            found.final_drain = index
        case RecordKind.FAULT:
            found.suspensions.extend(_suspension(record))
        case RecordKind.STATE if not record.node:
            _note_ordering(found, record)
        case _:
            pass


def _suspension(record: Record) -> Iterator[Suspension]:
    settings = dict(SETTING.findall(record.detail))
    if "stabilises" in settings:
        lasts = _seconds(record, settings["stabilises"])
        since = _seconds(record, settings["since"]) if "since" in settings else record.at
        yield Suspension(min(since, record.at), record.at + lasts, _seconds(record, settings.get("flight", "0")))


def _seconds(record: Record, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise TraceError(f"fault at {record.at}: {text!r} in {record.detail!r} is not a number of seconds")
    return seconds


def _note_ordering(found: FirstPass, record: Record) -> None:
    name = dict(SETTING.findall(record.detail)).get("ordering")
    if name is None:
        return
    if name not in tuple(Ordering):
        raise TraceError(f"ordering={name} is unknown; {', '.join(Ordering)} are known")
    if found.ordering not in (None, name):
        raise TraceError(f"the trace says both ordering={found.ordering} and ordering={name}")
    found.ordering = Ordering(name)
