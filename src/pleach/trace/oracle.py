"""The oracle: a judgement of one run by its records alone.

"Before" and "after" mean the total order of the trace (order.py). A client is its name, wherever it is
attached. The publisher of an event is the client that its id names. An event matches a client if the filter
of some subscription of it matches. A subscription with `no-own` in its detail neither is owed nor may get
the client's own events. A `subscribe_ack` with `local` in its detail is the early one that promises
nothing.

Lost       c had a matching subscription that was acknowledged before e was published; e was acknowledged or
           delivered to a client; c did not end that subscription, or there was a drain between e's acknowledgement
           (or first delivery) and the unsubscribe, or c got a later event of that publisher that matches
           the same subscription before it unsubscribed; and c has not got e by the final drain. The clause
           on later events rests on FIFO order: it is left out where a network promises none.
Duplicate  c got e before, whatever moves and resubscriptions lie between.
Spurious   c has no matching subscription between its `subscribe` and `unsubscribe_ack`; or e was never
           published, or only later; or its publication had failed; or its attributes are not those that
           were published (a delivery recorded without attributes is not compared).
FIFO       c got a later event of that publisher before: (incarnation, sequence) does not rise.
Causal     the publisher is another client, and e or a later event of it is in c's causal past: in what c
           published or got before, and in the causal past of that.

Each rule is judged by itself, with two exceptions, so that one error has one name: a duplicate is not also
out of order, and what breaks FIFO, and therefore causal order, is reported as FIFO. Events that do not
exist (never published, failed) have no place in any order. FIFO and causal are always computed; whether
they count depends on the ordering that the network promises: the argument, else what a `state` record
without node says (`ordering=none|fifo|causal`), else causal.

A publication may be tried again with the same id after its `publish_fail`; the latest attempt is the one
that counts. A fault whose detail has `stabilises=S` suspends the checks in [at, at + S]: what is delivered
then, and events that are published then, are not judged; what clients know and have got is still noted.
With `flight=F` beside it, events that were published before and accepted (acknowledged, or delivered once)
at most F before the fault, or later, may be lost: they may have been under way. When they were published does
not tell: a client keeps what it publishes until what it has advertised is in effect.

What cannot be judged gives a verdict with `unusable` set. Nothing is judged: records out of order, an
unknown kind, filters, ids or attributes that do not parse, an id published twice, or acknowledged and
failed, or published by another client, one subscription id for two filters at a time. All but losses are
judged: no drain, or publications after the last one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from pleach.core.events.event import EventId
from pleach.errors import InvalidInputError, TraceError
from pleach.trace.candidates import Candidates
from pleach.trace.first_pass import FirstPass, survey
from pleach.trace.ledger import NEVER, ClientHistory, ClientStates, Past, PublishedEvent, SubscriptionSpan
from pleach.trace.records import Record, RecordKind, attributes_from
from pleach.trace.verdict import Counts, Ordering, Rule, Verdict, Violation

NO_PAST: Past = {}
LOCAL = "local"  # in the detail of `subscribe_ack`: known to the client's broker only, which promises nothing yet


def judge(records: Sequence[Record], ordering: Ordering | str | None = None) -> Verdict:
    """The verdict on one run, whose records are in total order. Never raises on account of the trace."""
    promised = None if ordering is None else Ordering(ordering)
    run = records[0].run if records else ""
    try:
        known = survey(records)
        oracle = OraclePass(known, promised or known.ordering or Ordering.CAUSAL)
        for index, record in enumerate(records):
            oracle.read(index, record)
    except InvalidInputError as error:
        return Verdict(run, promised or Ordering.CAUSAL, unusable=str(error), counts=Counts(records=len(records)))
    return oracle.verdict(len(records))


class OraclePass:
    """One pass over the records, one after the other (also online.py). `found`: in the order in which they show."""

    def __init__(self, known: FirstPass, ordering: Ordering) -> None:
        self._known = known
        self._ordering = ordering
        self._candidates = Candidates(known.filters)
        self._clients = ClientStates()
        self._events: dict[str, PublishedEvent] = {}  # the latest attempt of each
        self._attempts: list[PublishedEvent] = []
        self._drains: list[int] = []
        self._found: list[Violation] = []
        self._set_aside = 0
        self._unpaired = 0
        self._deliveries = 0
        self._on: dict[str, Callable[[int, Record], None]] = {
            RecordKind.PUBLISH: self._publish,
            RecordKind.PUBLISH_ACK: self._publish_ack,
            RecordKind.PUBLISH_FAIL: self._publish_fail,
            RecordKind.SUBSCRIBE: self._subscribe,
            RecordKind.SUBSCRIBE_ACK: self._subscribe_ack,
            RecordKind.UNSUBSCRIBE: self._unsubscribe,
            RecordKind.UNSUBSCRIBE_ACK: self._unsubscribe_ack,
            RecordKind.DELIVER: self._deliver,
            RecordKind.DRAIN: self._drain,
        }

    def read(self, index: int, record: Record) -> None:
        handle = self._on.get(record.kind)
        if handle is not None:
            handle(index, record)

    def verdict(self, records: int) -> Verdict:
        tolerated = self._ordering.tolerates
        return Verdict(
            self._known.run,
            self._ordering,
            violations=tuple(found for found in self._found if found.rule not in tolerated),
            tolerated=tuple(found for found in self._found if found.rule in tolerated),
            unusable=why_unusable(self._known),
            counts=self._counts(records),
        )

    def _counts(self, records: int) -> Counts:
        return Counts(
            records=records,
            clients=len(self._clients),
            subscriptions=self._clients.subscribed,
            published=len(self._attempts),
            acknowledged=sum(attempt.acknowledged for attempt in self._attempts),
            failed=sum(attempt.failed for attempt in self._attempts),
            deliveries=self._deliveries,
            drains=len(self._drains),
            suspensions=len(self._known.suspensions),
            set_aside=self._set_aside,
            unpaired=self._unpaired,
        )

    # Publications

    def _publish(self, index: int, record: Record) -> None:
        publisher, incarnation, sequence = EventId.parse(record.event)
        if record.client not in ("", publisher):
            raise TraceError(
                f"record {index}: client {record.client!r} publishes {record.event}, an id of another client"
            )
        earlier = self._events.get(record.event)
        if earlier and not earlier.failed:
            raise TraceError(f"record {index}: {record.event} is published twice; was a file read twice?")
        matching = self._candidates.matching(record.attributes)
        awaited = self._known.deliveries[record.event]
        publication = PublishedEvent(
            record.event,
            publisher,
            (incarnation, sequence),
            index,
            record.at,
            record.attributes,
            matching,
            past=self._clients.client(publisher).current_past() if awaited else NO_PAST,
            deliveries_left=awaited,
            got=earlier.got if earlier else set(),
            owed=list(self._clients.owing(matching, publisher)),
        )
        self._events[record.event] = publication
        self._attempts.append(publication)

    def _publish_ack(self, index: int, record: Record) -> None:
        publication = self._events.get(record.event)
        if publication is None:
            self._unpaired += 1
            return
        if publication.failed:
            raise TraceError(f"record {index}: {record.event} is acknowledged after it failed")
        publication.acknowledged = True
        publication.accept(index, record.at)

    def _publish_fail(self, index: int, record: Record) -> None:
        publication = self._events.get(record.event)
        if publication is None:
            self._unpaired += 1
            return
        if publication.acknowledged:
            raise TraceError(f"record {index}: {record.event} fails after it was acknowledged")
        publication.failed = True

    # Subscriptions

    def _subscribe(self, index: int, record: Record) -> None:
        self._clients.subscribe(index, record)

    def _subscribe_ack(self, index: int, record: Record) -> None:
        if is_local(record):
            return
        self._unpaired += not self._clients.acknowledge(index, record)

    def _unsubscribe(self, index: int, record: Record) -> None:
        self._unpaired += not self._clients.unsubscribe(index, record)

    def _unsubscribe_ack(self, index: int, record: Record) -> None:
        self._unpaired += not self._clients.end(index, record)

    # Deliveries

    def _deliver(self, index: int, record: Record) -> None:
        self._deliveries += 1
        client = self._clients.client(record.who)
        publication = self._events.get(record.event)
        before = len(self._found)
        if publication is None or publication.failed:
            self._report(Rule.SPURIOUS, index, record, self._why_unreal(record.event))
        else:
            self._judge_delivery(index, record, client, publication)
        if len(self._found) > before and self._suspended(record, publication):
            self._set_aside += len(self._found) - before
            del self._found[before:]

    def _why_unreal(self, event: str) -> str:
        if event in self._events:
            return "its publication had failed"
        return "it was published only later" if event in self._known.published else "it was never published"

    def _judge_delivery(self, index: int, record: Record, client: ClientHistory, publication: PublishedEvent) -> None:
        self._judge_right(index, record, client, publication)
        if client.name in publication.got:
            self._report(Rule.DUPLICATE, index, record, "the client got it before")
        else:
            publication.got.add(client.name)
            self._judge_order(index, record, client, publication)
        publication.accept(index, record.at)
        publication.deliveries_left -= 1
        if not publication.deliveries_left:
            publication.past = NO_PAST

    def _judge_right(self, index: int, record: Record, client: ClientHistory, publication: PublishedEvent) -> None:
        """Spurious: did the client want it, and is it what was published?"""
        publisher, mark = publication.publisher, publication.mark
        wanted = False
        for text in publication.matching & client.open.keys():
            for taken in client.open[text]:
                if not taken.wants_from(publisher):
                    continue
                wanted = True
                if taken.ended is None and mark > taken.highest.get(publisher, NEVER):
                    taken.highest[publisher] = mark
        if not wanted:
            self._report(Rule.SPURIOUS, index, record, "the client has no matching subscription")
        elif altered(publication.attributes, record.attributes):
            self._report(Rule.SPURIOUS, index, record, "its attributes are not those that were published")

    def _judge_order(self, index: int, record: Record, client: ClientHistory, publication: PublishedEvent) -> None:
        publisher, mark = publication.publisher, publication.mark
        last = client.last.get(publisher)
        if last is not None and mark < last.mark:
            self._report(Rule.FIFO, index, record, f"the client got {last.event} before", last.event)
            return
        client.last[publisher] = publication
        if publisher == client.name:
            return
        if mark <= client.past.get(publisher, NEVER):
            witness = client.learnt_from[publisher]
            self._report(Rule.CAUSAL, index, record, f"the client got {witness} before, which came after it", witness)
        client.learn(publication)

    def _report(self, rule: Rule, index: int, record: Record, reason: str, other: str = "") -> None:
        self._found.append(Violation(rule, record.who, record.event, reason, index, record.at, other))

    def _suspended(self, record: Record, publication: PublishedEvent | None) -> bool:
        times = [record.at] if publication is None else [record.at, publication.at]
        return any(suspension.covers(at) for suspension in self._known.suspensions for at in times)

    # Drains and what is lost

    def _drain(self, index: int, _record: Record) -> None:
        self._drains.append(index)
        if index == self._known.final_drain:
            for publication in self._attempts:
                self._find_lost(publication)

    def _missed(self, publication: PublishedEvent) -> dict[str, str]:
        """The clients that it is owed to and that have not got it, each with the reason why it is owed."""
        missed: dict[str, str] = {}
        if publication.accepted is not None:
            for taken in publication.owed:
                if taken.client not in publication.got:
                    missed[taken.client] = missed.get(taken.client) or self._why_lost(publication, taken)
        return {client: reason for client, reason in missed.items() if reason}

    def _find_lost(self, publication: PublishedEvent) -> None:
        lost = [
            Violation(Rule.LOST, client, publication.event, reason, publication.index, publication.at)
            for client, reason in self._missed(publication).items()
        ]
        if lost and any(s.may_lose(publication.at, publication.accepted_at) for s in self._known.suspensions):
            self._set_aside += len(lost)
        else:
            self._found.extend(lost)

    def _why_lost(self, publication: PublishedEvent, taken: SubscriptionSpan) -> str:
        """Why the event is owed to this subscription, or the empty string if it is not."""
        name = taken.name or taken.filter
        assert publication.accepted is not None
        if taken.ended is None:
            return f"subscription {name!r} was acknowledged before and not ended"
        if _any_between(self._drains, publication.accepted, taken.ended):
            return f"subscription {name!r} was ended only after a drain"
        if self._ordering is Ordering.NONE or taken.highest.get(publication.publisher, NEVER) < publication.mark:
            return ""
        return f"subscription {name!r} was ended only after a later event of the publisher had come"


def why_unusable(known: FirstPass) -> str:
    """Why losses cannot be judged, or the empty string."""
    if known.final_drain < 0:
        return "the trace has no drain: what was under way at its end cannot be told from what was lost"
    if known.last_publication > known.final_drain:
        return "events were published after the final drain: whether they were lost cannot be told"
    return ""


def is_local(record: Record) -> bool:
    """Whether an acknowledgement is the early one that promises nothing."""
    return LOCAL in record.detail.split()


def altered(published: str, delivered: str) -> bool:
    if not delivered or delivered == published:
        return False
    before, after = attributes_from(published), attributes_from(delivered)
    return before != after or any(_is_bool(before[name]) != _is_bool(after[name]) for name in before)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _any_between(indices: Sequence[int], low: int, high: int) -> bool:
    place = bisect_right(indices, low)
    return place < len(indices) and indices[place] < high
