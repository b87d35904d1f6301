"""Figures, findings and page of Table I, from the measurements of `table1.py`.

What the papers promise of each protocol is from their text (S0 §III–V; S1 §4.4.1, §4.4.2; S2 §4, §6): S1 has no such
table of its own, and that of S0 (Table I) is of other systems. What is not promised may still happen to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from pleach.lab import figure_style
from pleach.lab.exchanges.table1 import EVENTS_PER_SECOND, KEEPS_ORDERS, ProtocolRow, cases, measure, rows
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.findings import Condition, Finding, Status, judged
from pleach.lab.trends import linear_growth, pooled, slope, trend
from pleach.scenario.model import Ordering

# Promises -------------------------------------------------------------------------------------------------------------


class Promise(Enum):
    """What a protocol may promise; the value is the sample that must be 0 where it does."""

    NO_LOSS = "lost"
    NO_DUPLICATE = "duplicate"
    FIFO = "fifo"
    CAUSAL = "causal"
    MINIMAL_DELAY = "held_back_ms_max"  # S0: no swap takes longer than the longer of the paths before and after
    INSIDE = "outside"  # S2 §4.2: no table changes but on the cycle (simple, identity, covering; not merging)


DELIVERY = frozenset({Promise.NO_LOSS, Promise.NO_DUPLICATE})
ORDER = MappingProxyType(
    {
        Ordering.NONE: frozenset[Promise](),
        Ordering.FIFO: frozenset({Promise.FIFO}),
        Ordering.CAUSAL: frozenset({Promise.FIFO, Promise.CAUSAL}),
    }
)

# In the papers' words. Keys are beginnings of names: a variant of a protocol has what the protocol has.
SAID = MappingProxyType(
    {
        "strawman": "may lose and reorder events; unsubscriptions leave the cycle (S1 §4.4.1)",
        "deferred": "a long delay doubles, a short one loses events; some unsubscriptions leave the cycle (S1 §4.4.1)",
        "coordinated": "while r is in use until the flush, events may come twice; no order (S1 §4.4.1)",
        "informed": "fewer (un)subscriptions; loses, doubles and reorders as what it relies on (S1 §4.4.1)",
        "path": "no table changes outside the cycle; may lose events, no order (S2 §4.2, S1 §4.4.1)",
        "advanced-coordinated": "loses, doubles nothing; the chosen order; within the cycle; delays events (S1 §4.4.2)",
        "swaplink-published": "loses and doubles nothing, causal order, minimal delay (S0 §V)",
        "swaplink": "loses and doubles nothing, causal order; delay within the triangle (our correction of S0)",
    }
)
PROMISED = MappingProxyType(
    {
        "path": frozenset({Promise.INSIDE}),
        "advanced-coordinated": DELIVERY | {Promise.INSIDE},
        "swaplink-published": DELIVERY | {Promise.INSIDE, Promise.MINIMAL_DELAY},
        "swaplink": DELIVERY | {Promise.INSIDE},
    }
)


def is_printed(row: ProtocolRow) -> bool:
    """An algorithm with the errors that its paper prints, kept for comparison: the promises are its authors'."""
    return any(mark in row.protocol for mark in ("-printed", "-published"))


def said(row: ProtocolRow) -> str:
    return SAID[_known(row.protocol)]


def promised(row: ProtocolRow) -> frozenset[Promise]:
    known = _known(row.protocol)
    if known not in PROMISED:
        return frozenset()
    has_order = known.startswith((KEEPS_ORDERS, "swaplink"))
    return PROMISED[known] | (ORDER[row.ordering] if has_order else frozenset())


def _known(protocol: str) -> str:
    return max((name for name in SAID if protocol.startswith(name)), key=len)


# The page -------------------------------------------------------------------------------------------------------------


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


# Pictures -----------------------------------------------------------------------------------------------------

STRAWMAN, DEFERRED, PATH = (ProtocolRow(name, Ordering.CAUSAL) for name in ("strawman", "deferred", "path"))
FIFO, CAUSAL = (ProtocolRow("advanced-coordinated", ordering) for ordering in (Ordering.FIFO, Ordering.CAUSAL))
UNORDERED = tuple(
    ProtocolRow(name, Ordering.CAUSAL) for name in ("strawman", "deferred", "coordinated", "informed", "path")
)
SWAPS = ProtocolRow("swaplink", Ordering.CAUSAL)


def draw_broken(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(
        axes, summaries, ("lost", "duplicate"), ("events lost", "events delivered twice"), (*UNORDERED, SWAPS, CAUSAL)
    )


def draw_cost(axes: Any, summaries: Sequence[Summary]) -> None:
    labels = ("mean extra delay (ms)", "overhead (hops)")
    _draw(axes, summaries, ("extra_ms", "overhead"), labels, (*UNORDERED, SWAPS, FIFO, CAUSAL))


def _draw(
    axes: Any, summaries: Sequence[Summary], metrics: Sequence[str], labels: Sequence[str], shown: Sequence[ProtocolRow]
) -> None:
    load = _densest(summaries)
    for axis, metric, label in zip(axes, metrics, labels, strict=True):
        for row in shown:
            figure_style.curve(axis, _curve(summaries, metric, row, load), "cycle", row.name)
        axis.set_xlabel("brokers on the cycle")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylabel(f"{label}, {load} load")
        axis.set_yscale("symlog", linthresh=1.0)  # from none to thousands
        axis.set_ylim(bottom=0)
    axes[-1].legend(fontsize="x-small")


def _densest(summaries: Sequence[Summary]) -> str:
    return "high" if select(summaries, "stuck", load="high") else "low"


def _curve(summaries: Sequence[Summary], metric: str, row: ProtocolRow, load: str) -> list[Summary]:
    found = select(summaries, metric, protocol=row.protocol, ordering=row.ordering.value, load=load)
    return sorted(found, key=lambda s: int(s.case["cycle"]))


# Judgements ---------------------------------------------------------------------------------------------------


IN_FIFO = (Promise.NO_LOSS.value, Promise.NO_DUPLICATE.value, Promise.FIFO.value)
WHOLE = (*IN_FIFO, Promise.CAUSAL.value, Promise.INSIDE.value, "spurious")
BROKEN = {
    Promise.NO_LOSS: "loses events",
    Promise.NO_DUPLICATE: "doubles events",
    Promise.FIFO: "breaks FIFO order",
    Promise.CAUSAL: "breaks causal order",
    Promise.MINIMAL_DELAY: "holds events back",
    Promise.INSIDE: "changes tables outside the cycle",
}
MUSTS = {  # whatever the protocol
    "spurious": "delivers what nobody asked for",
    "stuck": "has no end in some runs",
    "broken_afterwards": "is not whole afterwards",
}
NOT_MEASURED = Finding(Status.OPEN, "Runs of the protocols that are compared are missing.")


def judge_promises(summaries: Sequence[Summary]) -> Finding:
    """S1 §4.4.1, S2 §4.2, S0 §V: what is promised holds in every run, and only two promise that nothing breaks."""
    printed = [row for row in rows() if is_printed(row)]
    ours = [row for row in rows() if not is_printed(row)]
    kept, as_printed = (_kept(summaries, those) for those in (ours, printed))
    parts = [
        f"Promised and not kept: {'; '.join(kept.broken)}." if kept.broken else "Every promise is kept.",
        f"As printed, {'; '.join(as_printed.broken)}." if as_printed.broken else "So it is as printed.",
    ]
    return judged(
        " ".join(parts),
        core=[
            Condition("every protocol keeps what it promises", kept.holds),
            _breaks_none(summaries, "advanced coordinated keeps all in causal order", CAUSAL, WHOLE),
            _breaks_none(summaries, "it loses, doubles and reorders nothing in FIFO order", FIFO, IN_FIFO),
        ],
        besides=[
            Condition("the algorithms keep what they promise as printed, too", as_printed.holds),
            _others_break(summaries),
            _fewer_outside(summaries),
        ],
    )


class PromiseCheck(NamedTuple):
    """What some protocols break of what they must keep, and whether all keep it: None where runs are missing."""

    broken: tuple[str, ...]
    holds: bool | None


def _kept(summaries: Sequence[Summary], those: Sequence[ProtocolRow]) -> PromiseCheck:
    """Each its own promises; and whatever the protocol, it ends, invents nothing, and afterwards all is well."""
    found = {(row, words): _most(summaries, metric, row) for row in those for metric, words in _musts_of(row).items()}
    failing = {row.name: [words for (whose, words), most in found.items() if whose == row and most] for row in those}
    broken = tuple(f"{name} {' and '.join(words)}" for name, words in failing.items() if words)
    return PromiseCheck(broken, False if broken else None if None in found.values() else True)


def _musts_of(row: ProtocolRow) -> dict[str, str]:
    """Samples that have to be 0, and what it means where one is not."""
    return {p.value: BROKEN[p] for p in Promise if p in promised(row)} | MUSTS


def _breaks_none(summaries: Sequence[Summary], name: str, row: ProtocolRow, metrics: Sequence[str]) -> Condition:
    found = [_most(summaries, metric, row) for metric in metrics]
    return Condition(name, False if any(found) else None if None in found else True)


def _others_break(summaries: Sequence[Summary]) -> Condition:
    """That they may is said of them; where no run shows it, it is not refuted."""
    shown = [any(_most(summaries, metric, row) for metric in IN_FIFO) for row in UNORDERED]
    return Condition("the other protocols lose, double or reorder events", True if all(shown) else None)


def _fewer_outside(summaries: Sequence[Summary]) -> Condition:
    """S1 §4.4.1: that is what the delay is for."""
    name = "deferred unsubscriptions change fewer tables outside the cycle than the strawman"
    strawmans, deferred = (_curve(summaries, "outside", row, _densest(summaries)) for row in (STRAWMAN, DEFERRED))
    if not strawmans or not deferred:
        return Condition(name, None)
    return (pooled(strawmans) - pooled(deferred)).is_above_zero(name)


def _most(summaries: Sequence[Summary], metric: str, row: ProtocolRow) -> float | None:
    """In any run; None where there is none."""
    found = select(summaries, metric, protocol=row.protocol, ordering=row.ordering.value)
    return max((s.maximum for s in found), default=None)


def judge_broken(summaries: Sequence[Summary]) -> Finding:
    """S1 Fig. 4.15, on this workload: the strawman's losses and duplicates grow with the cycle."""
    load = _densest(summaries)
    lost, doubled = (_curve(summaries, metric, STRAWMAN, load) for metric in ("lost", "duplicate"))
    if not lost:
        return NOT_MEASURED
    kept = [
        _breaks_none(summaries, f"{name} lose and double nothing", row, ("lost", "duplicate"))
        for name, row in (("swaps", SWAPS), ("coordinated exchanges", CAUSAL))
    ]
    said = [
        f"{words} {short:.1f} events on the shorter cycles and {long:.1f} on the longer ones (correlation with the"
        f" length {trend(curve, 'cycle').fit:.2f})"
        for words, curve in (("loses", lost), ("doubles", doubled))
        for short, long in (_ends(curve),)
    ]
    others = "nothing" if all(each.holds for each in kept) else "something, too, or were not measured"
    growths = [linear_growth("losses", lost, "cycle"), linear_growth("duplicates", doubled, "cycle")]
    return judged(
        f"The strawman {', and '.join(said)}; swaps and advanced coordinated lose and double {others}.",
        core=[*kept, *(growth.grows for growth in growths)],
        besides=[growth.linear for growth in growths],
    )


def judge_cost(summaries: Sequence[Summary]) -> Finding:
    """S1 Fig. 4.14 and 4.16, on this workload: below the strawman at every length; delays grow, causal ones faster."""
    load = _densest(summaries)
    if not all(_curve(summaries, "overhead", row, load) for row in (STRAWMAN, PATH, FIFO, CAUSAL)):
        return NOT_MEASURED
    worst = {row: max(_shares(summaries, row)) for row in (CAUSAL, PATH)}
    curves = {row: _curve(summaries, "extra_ms", row, load) for row in (FIFO, CAUSAL)}
    delays = {row: _ends(curve) for row, curve in curves.items()}
    faster = slope(curves[CAUSAL], "cycle") - slope(curves[FIFO], "cycle")
    overheads = ", ".join(
        f"{row.protocol} {fmean(share for share, _ in _shares(summaries, row)):.0%} (at most {share:.0%}, at {cycle})"
        for row, (share, cycle) in worst.items()
    )
    waits = ", ".join(f"{row.name} {short:.1f} to {long:.1f} ms" for row, (short, long) in delays.items())
    measured = f"Overhead against the strawman's: {overheads}. Mean extra delay from shorter to longer cycles: {waits}."
    return judged(
        measured,
        core=[Condition("fewer messages than the strawman at every length", worst[CAUSAL][0] < 1)],
        besides=[
            Condition("so the path protocol", worst[PATH][0] < 1),
            *(linear_growth(f"delays of {row.ordering} order", curve, "cycle").grows for row, curve in curves.items()),
            faster.is_above_zero("delays of causal order grow faster"),
        ],
    )


def _ends(curve: Sequence[Summary]) -> tuple[float, float]:
    """The means of the shorter and of the longer half of the cycles."""
    half = max(1, len(curve) // 2)
    return fmean(s.mean for s in curve[:half]), fmean(s.mean for s in curve[-half:])


def _shares(summaries: Sequence[Summary], row: ProtocolRow) -> list[tuple[float, int]]:
    """Of the strawman's overhead, with the length of the cycle."""
    found = []
    for load in EVENTS_PER_SECOND:
        base = {s.case["cycle"]: s.mean for s in _curve(summaries, "overhead", STRAWMAN, load)}
        curve = [s for s in _curve(summaries, "overhead", row, load) if s.case["cycle"] in base]
        found += [(s.mean / base[s.case["cycle"]], int(s.case["cycle"])) for s in curve]
    return found


PUBLISHED = (
    "Only advanced coordinated reconfiguration (S1) and SwapLink (S0) lose and double nothing and keep an order;"
    " SwapLink alone adds no delay (S0 Table I). The others may lose, double and reorder events. The path protocol and"
    " those two change no table outside the cycle, the strawman does, deferred unsubscriptions do less (S1 §4.4.1,"
    " S2 §4.2)."
)

TABLE1 = Experiment(
    name="table1",
    about="every protocol that exchanges a link, on the same seeds: what each breaks, delays, costs and locks",
    cases=cases,
    seeds={Size.QUICK: 1, Size.USUAL: 8, Size.FULL: 50},
    measure=measure,
    figures=(
        Figure(
            name="table1-broken",
            paper="S1 §4.4.3",
            title="What an exchange breaks, by the length of its cycle",
            published="The strawman's losses and duplicates grow with the cycle, about linearly (S1 Fig. 4.15).",
            draw=draw_broken,
            judge=judge_broken,
            panels=2,
        ),
        Figure(
            name="table1-cost",
            paper="S1 §4.4.3, S2 §5",
            title="What an exchange delays and costs, by the length of its cycle",
            published=(
                "Advanced coordinated reconfiguration sends fewer messages than the strawman at every length (S1"
                " Fig. 4.14); delays grow with it, those of causal order faster (Fig. 4.16)."
            ),
            draw=draw_cost,
            judge=judge_cost,
            panels=2,
        ),
    ),
    tables=(
        ResultTable(
            name="table1",
            paper="S0 Table I, S1 §4.4.1",
            title="Protocols that exchange a link, measured",
            published=PUBLISHED,
            write=page,
            judge=judge_promises,
        ),
    ),
    cost=lambda case: EVENTS_PER_SECOND[str(case["load"])] + float(case["cycle"]),
)
