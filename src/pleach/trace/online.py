"""The oracle while a run goes on, in bounded memory: the same rules (oracle.py) on a window of the trace.

    published ── accepted ─────────────── window ─────────────────────────── grace
                 │ got by all it is owed to: remembered, then forgotten      │ owed to somebody who has not got it: lost

Rule 1: on a trace in which nothing comes later than `window` seconds after it was accepted, but for events that
        somebody waits for, and those not later than `grace`, the verdict is that of the oracle.
Rule 2: an event that comes after it was forgotten is spurious, with that reason: it was lost before, or comes again. If
        it is published after it was forgotten, the trace is unusable, as if it were published twice at once.
Rule 3: an event that the network has not accepted is remembered as long as its publisher waits for the answer.

What is remembered is what the last `window` seconds brought, what somebody waits for, filters of open subscriptions,
and a few marks for each pair of a client and a publisher. Violations are counted; the first of them are kept.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from pleach.core.events.event import EventId
from pleach.errors import InvalidInputError, TraceError
from pleach.trace.candidates import Candidates
from pleach.trace.first_pass import FirstPass, OrderCheck, note
from pleach.trace.ledger import NEVER, Mark, PublishedEvent
from pleach.trace.oracle import NO_PAST, OraclePass
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Counts, Ordering, Rule, Verdict, Violation

KEPT_MAX = 1_000  # violations, and as many breaches of an order that is not promised
FAILED_MAX = 10_000  # failed publications that may be tried again
FILTERS_SPARE = 100  # that nobody wants any more, and that are not forgotten yet
SWEEPS_PER_WINDOW = 10
FORGOTTEN = "it was forgotten: accepted long ago, and lost, or delivered to everybody that it was owed to"


class _EveryDelivery(Counter[str]):
    """How often an event will be delivered is not known: its causal past is kept until it is forgotten."""

    def __missing__(self, _event: str) -> int:
        return 1 << 62


@dataclass(frozen=True)
class Standing:
    """The state of a judgement that goes on."""

    found: Counter[Rule]
    published: int
    deliveries: int
    waiting: int  # accepted events that somebody has not got yet
    oldest: float  # seconds since the first of them was accepted
    remembered: int
    unusable: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.found.total() and not self.unusable


class OnlineOracle(OraclePass):
    def __init__(self, run: str, ordering: Ordering = Ordering.CAUSAL, *, window: float, grace: float) -> None:
        super().__init__(FirstPass(run, deliveries=_EveryDelivery()), ordering)
        self._window, self._grace = window, grace
        self._check = OrderCheck(run)
        self._index = -1
        self._now = -math.inf
        self._sweep_at = -math.inf
        self._kept: dict[bool, list[Violation]] = {False: [], True: []}  # by whether they are tolerated
        self._count: Counter[Rule] = Counter()
        self._tally: Counter[str] = Counter()  # records by kind
        self._forgotten: dict[str, Mark] = {}  # the highest event of each publisher that was forgotten
        self._failed: dict[str, bool] = {}  # events that were forgotten, and may be tried again; the latest last
        self.unusable = ""  # why nothing is judged any more

    def observe(self, record: Record) -> list[Violation]:
        """Judge one record more; returns what it shows. Never raises on account of the trace."""
        if self.unusable:
            return []
        self._index += 1
        try:
            self._check(self._index, record)
            self._note(record)
            self.read(self._index, record)
        except InvalidInputError as error:
            self.unusable = str(error)
        self._now = record.at
        if self._now >= self._sweep_at:
            self._sweep()
        return self._shown()

    def published_at(self, event: str) -> float | None:
        """None: it was never published, or is forgotten."""
        publication = self._events.get(event)
        return None if publication is None else publication.at

    def _note(self, record: Record) -> None:
        """What the oracle knows of a whole trace beforehand, as far as it is known by now."""
        self._tally[record.kind] += 1
        match record.kind:
            case RecordKind.PUBLISH:
                self._known.last_publication = self._index
            case RecordKind.SUBSCRIBE:
                self._candidates.add(record.filter)
            case RecordKind.DELIVER:
                self._refresh(record.event)
            case RecordKind.DRAIN:
                pass  # which one is the final one is not known
            case _:
                note(self._known, self._index, record)

    def _refresh(self, event: str) -> None:
        """A filter may be newer than the event."""
        publication = self._events.get(event)
        if publication is not None:
            publication.matching = self._candidates.matching(publication.attributes)

    def _publish(self, index: int, record: Record) -> None:
        is_retry = self._failed.pop(record.event, False)
        if not is_retry and record.event not in self._events and self._is_forgotten(record.event):
            raise TraceError(f"record {index}: {record.event} is published again: {FORGOTTEN}")
        super()._publish(index, record)

    def _is_forgotten(self, event: str) -> bool:
        publisher, incarnation, sequence = EventId.parse(event)
        return (incarnation, sequence) <= self._forgotten.get(publisher, NEVER)

    def _why_unreal(self, event: str) -> str:
        return FORGOTTEN if self._is_forgotten(event) else super()._why_unreal(event)

    # Forgetting

    def _sweep(self) -> None:
        self._sweep_at = self._now + self._window / SWEEPS_PER_WINDOW
        left = []
        for publication in self._attempts:
            if self._is_over(publication):
                self._find_lost(publication)
                self._forget(publication)
            else:
                left.append(publication)
        self._attempts = left
        self._forget_filters()

    def _forget_filters(self) -> None:
        """Only open subscriptions are asked for; what was published before is matched again when it comes."""
        wanted = self._clients.open_filters
        if len(self._candidates) > len(wanted) + FILTERS_SPARE:
            self._candidates = Candidates(wanted)

    def _is_over(self, publication: PublishedEvent) -> bool:
        if publication.failed:
            return self._now - publication.at > self._window
        if publication.accepted is None:
            return False
        age = self._now - publication.accepted_at
        return age > self._grace or (age > self._window and not self._missed(publication))

    def _forget(self, publication: PublishedEvent) -> None:
        mark = self._forgotten.get(publication.publisher, NEVER)
        self._forgotten[publication.publisher] = max(mark, publication.mark)
        publication.past = NO_PAST  # clients remember the highest event of each publisher
        publication.owed = []
        if self._events.get(publication.event) is publication:
            del self._events[publication.event]
            if publication.failed:
                self._failed[publication.event] = True
                if len(self._failed) > FAILED_MAX:
                    del self._failed[next(iter(self._failed))]

    # Verdicts

    def _shown(self) -> list[Violation]:
        if not self._found:
            return []
        shown, self._found = self._found, []
        self._count.update(violation.rule for violation in shown)
        for violation in shown:
            kept = self._kept[violation.rule in self._ordering.tolerates]
            if len(kept) < KEPT_MAX:
                kept.append(violation)
        return shown

    def standing(self) -> Standing:
        waiting = [publication for publication in self._attempts if self._missed(publication)]
        return Standing(
            found=Counter({rule: count for rule, count in self._count.items() if rule not in self._ordering.tolerates}),
            published=self._tally[RecordKind.PUBLISH],
            deliveries=self._deliveries,
            waiting=len(waiting),
            oldest=max((self._now - publication.accepted_at for publication in waiting), default=0.0),
            remembered=len(self._attempts),
            unusable=self.unusable,
        )

    def finish(self) -> Verdict:
        """The verdict after the last record."""
        if self.unusable:
            counts = Counts(records=self._index + 1)
            return Verdict(self._known.run, self._ordering, unusable=self.unusable, counts=counts)
        self._known.final_drain = self._drains[-1] if self._drains else -1
        if self._drains:
            for publication in self._attempts:
                self._find_lost(publication)
        self._shown()
        self._found = [*self._kept[False], *self._kept[True]]
        return self.verdict(self._index + 1)

    def _counts(self, records: int) -> Counts:
        """Of the whole run, also of what was forgotten."""
        published, acknowledged, failed = (
            self._tally[kind] for kind in (RecordKind.PUBLISH, RecordKind.PUBLISH_ACK, RecordKind.PUBLISH_FAIL)
        )
        remembered = super()._counts(records)
        return replace(remembered, published=published, acknowledged=acknowledged, failed=failed)
