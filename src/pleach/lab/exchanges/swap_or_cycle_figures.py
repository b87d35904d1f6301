"""Swaps beside the whole cycle at once, drawn, tabled and judged, from what `swap_or_cycle.py` measures."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from pleach.lab.exchanges.swap_or_cycle import (
    COORDINATED,
    EVENT_BYTES,
    PROTOCOLS,
    SWAPS,
    USUAL_LISTENERS,
    USUAL_RATE,
    cases,
    cost,
    measure,
)
from pleach.lab.exchanges.swap_or_cycle_choice import WAITS, judge_choice
from pleach.lab.exchanges.workload import ExchangeWorkload
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.trends import pooled
from pleach.scenario.model import Ordering
from pleach.trace import Rule

WAITS_LESS = "events wait less for swaps"
TENTHS_BELOW = 10  # from there on a table has whole numbers
SHOWN = MappingProxyType(
    {
        "messages": "messages",
        "kilobytes": "KB",
        "completion_ms": "ms to completion",
        WAITS: "longest extra delay (ms)",
        "locked_broker_ms": "locked, broker·ms",
    }
)


# The picture and the table ---------------------------------------------------------------------------------------


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    for axis, (metric, label) in zip(axes, SHOWN.items(), strict=True):
        for protocol in PROTOCOLS:
            for ordering in _orderings(summaries, protocol, metric):
                points = _by_cycle(summaries, metric, protocol=protocol, ordering=ordering)
                lengths = [int(s.case["cycle"]) for s in points]
                (line,) = axis.plot(lengths, [s.mean for s in points], marker=".", label=f"{protocol}, {ordering}")
                low, high = [s.low for s in points], [s.high for s in points]
                axis.fill_between(lengths, low, high, color=line.get_color(), alpha=0.2)
        axis.set_xlabel("brokers on the cycle")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize="x-small")


def _orderings(summaries: Sequence[Summary], protocol: str, metric: str) -> list[str]:
    found = select(summaries, metric, protocol=protocol, rate=USUAL_RATE, listeners=USUAL_LISTENERS)
    return sorted({str(s.case["ordering"]) for s in found})


def _by_cycle(summaries: Sequence[Summary], metric: str, **wanted: str | float) -> list[Summary]:
    chosen = {"rate": USUAL_RATE, "listeners": USUAL_LISTENERS, "ordering": Ordering.CAUSAL.value, **wanted}
    return sorted(select(summaries, metric, **chosen), key=lambda s: int(s.case["cycle"]))


LEGEND = f"""\
The same exchanges, by swaps / at once, means over the seeds, in causal order. Trees, latencies (1 to 25 ms per link),
clients and loads are the same for both. Messages are those of the exchange and copies of events; KB count events as
{EVENT_BYTES} bytes, as in S0. The delay is that of the event which waits longest, against the slower of the tree before
and the tree after; in parentheses at once under `fifo`. Listeners have a subscription of their own each, and 12 more
come on top."""


def page(summaries: Sequence[Summary]) -> str:
    head = ["brokers on the cycle", "events/s", "listeners", *SHOWN.values()]
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for cycle, rate, listeners in _rows(summaries):
        chosen = {"cycle": cycle, "rate": rate, "listeners": listeners}
        cells = [_cell(summaries, metric, chosen) for metric in SHOWN]
        lines.append(" | ".join([str(cycle), f"{ExchangeWorkload.publishers * rate:g}", str(listeners), *cells]))
    return f"{LEGEND}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n"


def _rows(summaries: Sequence[Summary]) -> list[tuple[int, float, int]]:
    found = select(summaries, "messages", ordering=Ordering.CAUSAL.value)
    keys = {(int(s.case["cycle"]), float(s.case["rate"]), int(s.case["listeners"])) for s in found}
    return sorted(keys, key=lambda key: (key[1:] != (USUAL_RATE, USUAL_LISTENERS), *key))


def _cell(summaries: Sequence[Summary], metric: str, chosen: dict[str, Any]) -> str:
    both = {"ordering": Ordering.CAUSAL.value, **chosen}
    means = [select(summaries, metric, protocol=protocol, **both)[0].mean for protocol in PROTOCOLS]
    text = " / ".join(map(_spelled, means))
    fifo = select(summaries, WAITS, protocol=COORDINATED, ordering=Ordering.FIFO.value, **chosen)
    return f"{text} ({_spelled(fifo[0].mean)})" if metric == WAITS and fifo else text


def _spelled(mean: float) -> str:
    return f"{mean:.1f}" if mean < TENTHS_BELOW else f"{mean:,.0f}"


# Judgement -----------------------------------------------------------------------------------------------------


def judge(summaries: Sequence[Summary]) -> Finding:
    """Reproduced: neither breaks what it promises, and events wait less for swaps (S0 Table I)."""
    whole = (Rule.LOST.value, Rule.DUPLICATE.value, Rule.SPURIOUS.value, "broken_afterwards", "refused")
    broken = [metric.replace("_", " ") for metric in whole if _most(summaries, metric) > 0]
    broken += _out_of_order(summaries)
    waits = {protocol: _by_cycle(summaries, WAITS, protocol=protocol) for protocol in PROTOCOLS}
    kept = Condition("neither breaks what it promises", not broken)
    said = f"{'Broken: ' + ', '.join(broken) if broken else 'Neither breaks anything'}."
    if not all(waits.values()):
        return judged(said, core=[kept, Condition(WAITS_LESS, None)])
    longest = {protocol: max(point.mean for point in points) for protocol, points in waits.items()}
    measured = (
        f"{said} Beside the swaps the coordinated protocol takes {_ratios(summaries, 'completion_ms')} of the time and"
        f" {_ratios(summaries, 'kilobytes')} of the bytes; an event waits for it up to {longest[COORDINATED]:.0f} ms"
        f" in the mean of the longest waits, for swaps up to {longest[SWAPS]:.0f} ms."
    )
    longer = pooled(waits[COORDINATED]) - pooled(waits[SWAPS])
    return judged(measured, core=[kept], besides=[longer.is_above_zero(WAITS_LESS)])


def _out_of_order(summaries: Sequence[Summary]) -> list[str]:
    causal = _most(summaries, Rule.CAUSAL.value, ordering=Ordering.CAUSAL.value)
    fifo = max(_most(summaries, Rule.FIFO.value, ordering=kept.value) for kept in (Ordering.FIFO, Ordering.CAUSAL))
    return [name for name, count in (("fifo order", fifo), ("causal order", causal)) if count]


def _most(summaries: Sequence[Summary], metric: str, **wanted: str) -> float:
    return max((s.maximum for s in select(summaries, metric, **wanted)), default=0.0)


def _ratios(summaries: Sequence[Summary], metric: str) -> str:
    pairs = zip(*(_by_cycle(summaries, metric, protocol=protocol) for protocol in PROTOCOLS), strict=True)
    shares = [coordinated.mean / swaps.mean for swaps, coordinated in pairs]
    return f"{min(shares):.0%} to {max(shares):.0%}"


PUBLISHED = (
    "SwapLink adds no delay and works for any two trees by composition; advanced coordinated reconfiguration exchanges"
    " a link at once and delays events (S0 Table I). Nobody has measured one beside the other."
)

WANTED = (
    "Nobody has measured one beside the other. We want a rule which to use when (`overlay.choice`), whose reasons are"
    " what was measured."
)

SWAP_OR_CYCLE = Experiment(
    name="swap-or-cycle",
    about="the same exchange by SwapLinks and by advanced coordinated reconfiguration: messages, bytes, time, delay",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 20, Size.FULL: 100},
    measure=measure,
    figures=(
        Figure(
            name="swap-or-cycle-curves",
            paper="S0 Table I",
            title="Swaps, or the whole cycle at once",
            published=PUBLISHED,
            draw=draw,
            judge=judge,
            panels=len(SHOWN),
        ),
    ),
    tables=(
        ResultTable(
            name="swap-or-cycle-table",
            paper="S0 Table I",
            title="Swaps or the whole cycle at once: which when",
            published=WANTED,
            write=page,
            judge=judge_choice,
        ),
    ),
    cost=cost,
)
