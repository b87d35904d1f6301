"""Table I as a page: what is promised beside what was measured, by protocol, and by the length of the cycle."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from pleach.lab.exchanges.promises import Promise, promised, said
from pleach.lab.exchanges.table1 import ProtocolRow, rows
from pleach.lab.experiment import Summary, select
from pleach.lab.trends import pooled


class TableColumn(NamedTuple):
    title: str
    metric: str
    scale: float = 1.0
    digits: int = 1
    has_interval: bool = False


COLUMNS = (
    TableColumn("lost", "lost", has_interval=True),
    TableColumn("twice", "duplicate", has_interval=True),
    TableColumn("FIFO", "fifo"),
    TableColumn("causal", "causal"),
    TableColumn("spurious", "spurious"),
    TableColumn("extra delay, mean ms", "extra_ms", has_interval=True),
    TableColumn("most, ms", "extra_ms_max"),
    TableColumn("held back, ms", "held_back_ms_max"),
    TableColumn("done after, ms", "completion_ms", digits=0, has_interval=True),
    TableColumn("brokers locked", "locked_brokers"),
    TableColumn("locked, broker·s", "locked_broker_ms", 0.001),
    TableColumn("control messages", "control", digits=0),
    TableColumn("KB", "control_bytes", 0.001),
    TableColumn("misrouted hops", "misrouted", digits=0),
    TableColumn("overhead (S2), hops", "overhead", digits=0, has_interval=True),
    TableColumn("entries outside", "outside", digits=0),
)
BY_PROMISE = {promise.value: promise for promise in Promise}
LENGTHS = (3, 6, 9, 12)  # of cycles that the second table shows
BY_LENGTH = tuple(
    column
    for column in COLUMNS
    if column.metric in ("lost", "duplicate", "extra_ms", "completion_ms", "control", "control_bytes", "overhead")
)

LEGEND = """\
Means per exchange, over all lengths of the cycle; all protocols on the same seeds. **Bold**: the papers promise that it
is 0. ✓: it is 0 in every run. ✗: it is not. ?: it is 0 in the runs that came to an end, but not all did. Without a mark
nothing is promised. ±: half of the 95% interval of the mean.

Extra delay is that of events under way during the exchange, beyond the longer of their paths in the tree before and in
the tree after; swaps go through trees in between, and what is later than in any of these is held back. Misrouted: hops
that brought an event to no client for the first time. Overhead as S2 counts it: (un)subscriptions, misrouted events,
and the protocol's own messages, in hops. Control messages are all that are no events, with our confirmations. "No end":
the share of runs in which brokers stay locked or fail; of these nothing else is counted.

What the exchange costs and where is measured while nobody (un)subscribes, all else while clients do."""


def page(summaries: Sequence[Summary]) -> str:
    loads = sorted({str(s.case["load"]) for s in summaries}, reverse=True)  # low before high
    parts = [LEGEND]
    for load in loads:
        parts += [f"## At {load} load", _measured(select_load(summaries, load))]
    densest = select_load(summaries, "high" if "high" in loads else "low")
    parts += ["## By the length of the cycle", *_by_length(densest)]
    parts += ["## What the papers say", _said()]
    return "\n\n".join(parts)


def select_load(summaries: Sequence[Summary], load: str) -> list[Summary]:
    return [s for s in summaries if s.case["load"] == load]


def _measured(summaries: Sequence[Summary]) -> str:
    header = ("protocol", *(column.title for column in COLUMNS), "no end")
    lines = [
        [row.name, *(_cell(summaries, row, column) for column in COLUMNS), _stuck(summaries, row)] for row in rows()
    ]
    return markdown(header, lines)


def _cell(summaries: Sequence[Summary], row: ProtocolRow, column: TableColumn) -> str:
    found = _of(summaries, row, column.metric)
    if not found:
        return "–"
    text = _mean(found, column)
    if BY_PROMISE.get(column.metric) not in promised(row):
        return text
    if any(s.maximum > 0 for s in found):
        return f"**{text}** ✗"
    return f"**{text}** {'?' if _share_stuck(summaries, row) else '✓'}"


def _mean(found: Sequence[Summary], column: TableColumn) -> str:
    mean, error = (column.scale * each for each in pooled(found))
    text = f"{mean:,.{column.digits}f}"
    is_wide = column.has_interval and error * 10**column.digits >= 0.5  # as it would be printed; not if there is none
    return f"{text} ± {error:,.{column.digits}f}" if is_wide else text


def _share_stuck(summaries: Sequence[Summary], row: ProtocolRow) -> float:
    found = _of(summaries, row, "stuck")
    return fmean(s.mean for s in found) if found else 0.0


def _stuck(summaries: Sequence[Summary], row: ProtocolRow) -> str:
    share = _share_stuck(summaries, row)
    return f"{share:.0%}" if share else ""


def _of(summaries: Sequence[Summary], row: ProtocolRow, metric: str) -> list[Summary]:
    return select(summaries, metric, protocol=row.protocol, ordering=row.ordering.value)


def _by_length(summaries: Sequence[Summary]) -> list[str]:
    lengths = sorted({int(s.case["cycle"]) for s in summaries} & {*LENGTHS})
    tables = []
    for column in BY_LENGTH:
        lines = [[row.name, *(_at(summaries, row, column, length) for length in lengths)] for row in rows()]
        tables.append(markdown((f"{column.title}, brokers on the cycle:", *map(str, lengths)), lines))
    return tables


def _at(summaries: Sequence[Summary], row: ProtocolRow, column: TableColumn, length: int) -> str:
    found = [s for s in _of(summaries, row, column.metric) if s.case["cycle"] == length]
    return f"{found[0].mean * column.scale:,.{column.digits}f}" if found else "–"


def _said() -> str:
    protocols = {row.protocol: said(row) for row in rows()}
    return markdown(("protocol", "what it promises"), [[protocol, words] for protocol, words in protocols.items()])


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines))
