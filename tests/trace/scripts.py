"""Traces written by hand, one line per record: `at node kind …`, the rest as `column=value`.

1 c subscribe s1 | topic = 't1'
2 c subscribe_ack s1
3 p publish p/0/1 | {"topic":"t1"}
4 c deliver p/0/1
5 - drain
"""

from __future__ import annotations

from collections import Counter

from pleach.trace import Record, RecordKind

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
