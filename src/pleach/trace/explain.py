"""Explanations: a violation with the records that show it, as text.

lost: client c, event p/1/3, at 2.5: subscription 's1' was acknowledged before and not ended
      1.000000  c    subscribe       s1  topic = 't1'
      1.200000  c    subscribe_ack   s1
  >   2.500000  p    publish         p/1/3  {"topic":"t1"}
      2.600000  p    publish_ack     p/1/3
      9.000000       drain
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pleach.trace.candidates import Candidates
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Verdict, Violation

VIOLATIONS_SHOWN_MAX = 10
RECORDS_SHOWN_MAX = 12  # on each side of the record that shows the violation

OF_SUBSCRIPTIONS = frozenset(
    {RecordKind.SUBSCRIBE, RecordKind.SUBSCRIBE_ACK, RecordKind.UNSUBSCRIBE, RecordKind.UNSUBSCRIBE_ACK}
)


def explain(verdict: Verdict, records: Sequence[Record], violations_max: int = VIOLATIONS_SHOWN_MAX) -> str:
    """The first violations of a verdict on these records, each with the records around it."""
    lines = [f"run {verdict.run}: {verdict.outcome} (ordering: {verdict.ordering})"]
    if verdict.unusable:
        lines.append(f"cannot be judged: {verdict.unusable}")
    for violation in verdict.violations[:violations_max]:
        lines.append(str(violation))
        lines.extend(_around(violation, records))
    left = len(verdict.violations) - violations_max
    if left > 0:
        lines.append(f"… and {left:,} more")
    return "\n".join(lines)


def _around(violation: Violation, records: Sequence[Record]) -> Iterator[str]:
    names = _matching_subscriptions(violation, records)
    chosen = [index for index, record in enumerate(records) if _concerns(violation, names, record)]
    before = [index for index in chosen if index < violation.index][-RECORDS_SHOWN_MAX:]
    after = [index for index in chosen if index > violation.index][:RECORDS_SHOWN_MAX]
    for index in (*before, violation.index, *after):
        yield _line(records[index], ">" if index == violation.index else " ")


def _matching_subscriptions(violation: Violation, records: Sequence[Record]) -> frozenset[str]:
    """The names of the client's subscriptions whose filter matches the event."""
    taken = [r for r in records if r.kind == RecordKind.SUBSCRIBE and r.who == violation.client]
    published = [r for r in records if r.kind == RecordKind.PUBLISH and r.event == violation.event]
    candidates = Candidates(record.filter for record in taken)
    wanted = frozenset[str]().union(*(candidates.matching(record.attributes) for record in published))
    return frozenset(record.subscription for record in taken if record.filter in wanted)


def _concerns(violation: Violation, names: frozenset[str], record: Record) -> bool:
    its_client = record.who == violation.client
    match record.kind:
        case RecordKind.DRAIN | RecordKind.FAULT:
            return True
        case RecordKind.MOVE:
            return its_client
        case RecordKind.DELIVER:
            return its_client and record.event in (violation.event, violation.other)
        case RecordKind.PUBLISH | RecordKind.PUBLISH_ACK | RecordKind.PUBLISH_FAIL:
            return record.event in (violation.event, violation.other)
        case kind if kind in OF_SUBSCRIPTIONS:
            return its_client and record.subscription in names
        case _:
            return False


def _line(record: Record, mark: str) -> str:
    about = (record.event, record.subscription, record.filter, record.attributes, record.detail)
    said = "  ".join(part for part in about if part)
    who = record.who if record.who == record.node or not record.node else f"{record.who}@{record.node}"
    return f"  {mark} {record.at:12.6f}  {who:<12} {record.kind:<16}{said}".rstrip()
