"""Traces written by hand, one line per record: `at node kind …`, the rest as `column=value`.

1 c subscribe s1 | topic = 't1'
2 c subscribe_ack s1
3 p publish p/0/1 | {"topic":"t1"}
4 c deliver p/0/1
5 - drain
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from pleach.trace import Record, RecordKind, Verdict, judge

T1 = '{"topic":"t1"}'
SUBSCRIBED = """
    1 c subscribe s1 | topic = 't1'
    2 c subscribe_ack s1
"""
OF_SUBSCRIPTIONS = ("subscribe", "subscribe_ack", "unsubscribe", "unsubscribe_ack")


def script(text: str, run: str = "r") -> list[Record]:
    """The records of a script; `node` is also the client, `-` is no node."""
    counts: Counter[str] = Counter()
    records = []
    for line in filter(None, map(str.strip, text.splitlines())):
        head, _, tail = map(str.strip, line.partition("|"))
        at, node, kind, *words = head.split()
        node = "" if node == "-" else node
        counts[node] += 1
        columns = _columns(kind, words, tail)
        records.append(Record(run, float(at), node, counts[node], RecordKind(kind), client=node, **columns))
    return records


def _columns(kind: str, words: list[str], tail: str) -> dict[str, str]:
    if kind in OF_SUBSCRIPTIONS:
        return {"subscription": words[0], "filter": tail, "detail": " ".join(words[1:])}
    if kind in ("fault", "state"):
        return {"detail": " ".join(words)}
    return {"event": words[0] if words else "", "attributes": tail}


def broken(text: str, **options: Any) -> list[str]:
    """`rule client event` of each violation; the trace must be usable."""
    verdict = judge(script(text), **options)
    assert verdict.usable, verdict.unusable
    return spelt(verdict)


def spelt(verdict: Verdict) -> list[str]:
    return [f"{one.rule} {one.client} {one.event}" for one in verdict.violations]


def replaced(record: Record, **changes: Any) -> Record:
    return msgspec.structs.replace(record, **changes)
