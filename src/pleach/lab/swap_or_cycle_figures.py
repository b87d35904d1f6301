"""Swaps beside the whole cycle at once, drawn, tabled and judged, from what `swap_or_cycle.py` measures."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Size, Summary, Table, select
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.swap_or_cycle import COORDINATED, PROTOCOLS, SWAPS, USUAL_LISTENERS, USUAL_RATE, cases, cost, measure
from pleach.scenario.model import Ordering
from pleach.trace import Rule

SHOWN = MappingProxyType(
    {
        "messages": "messages",
        "kilobytes": "KB",
        "completion_ms": "ms to completion",
        "extra_ms_max": "longest extra delay (ms)",
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


def page(summaries: Sequence[Summary]) -> str:
    """Each cell: swaps / coordinated, means over the seeds, in causal order."""
    head = ["brokers on the cycle", "events/s", "listeners", *SHOWN.values()]
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for cycle, rate, listeners in _rows(summaries):
        chosen = {"cycle": cycle, "rate": rate, "listeners": listeners, "ordering": Ordering.CAUSAL.value}
        cells = [_cell(summaries, metric, chosen) for metric in SHOWN]
        lines.append(" | ".join([str(cycle), f"{4 * rate:g}", str(listeners), *cells]))
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _rows(summaries: Sequence[Summary]) -> list[tuple[int, float, int]]:
    found = select(summaries, "messages", ordering=Ordering.CAUSAL.value)
    keys = {(int(s.case["cycle"]), float(s.case["rate"]), int(s.case["listeners"])) for s in found}
    return sorted(keys, key=lambda key: (key[1:] != (USUAL_RATE, USUAL_LISTENERS), *key))


def _cell(summaries: Sequence[Summary], metric: str, chosen: dict[str, Any]) -> str:
    means = [select(summaries, metric, protocol=protocol, **chosen)[0].mean for protocol in PROTOCOLS]
    return " / ".join(f"{mean:.1f}" if mean < 10 else f"{mean:,.0f}" for mean in means)


# Judgement -----------------------------------------------------------------------------------------------------


def judge(summaries: Sequence[Summary]) -> Finding:
    """Reproduced: neither breaks what it promises, and swaps alone delay nothing beyond both trees (S0 Table I)."""
    broken = [rule.value for rule in (Rule.LOST, Rule.DUPLICATE, Rule.SPURIOUS) if _most(summaries, rule.value) > 0]
    broken += _out_of_order(summaries)
    faster = _ratios(summaries, "completion_ms")
    lighter = _ratios(summaries, "kilobytes")
    delay = max((s.mean for s in _by_cycle(summaries, "extra_ms_max", protocol=COORDINATED)), default=0.0)
    own = max((s.mean for s in _by_cycle(summaries, "extra_ms_max", protocol=SWAPS)), default=0.0)
    measured = (
        f"{'Broken: ' + ', '.join(broken) if broken else 'Neither breaks anything'}. Beside the swaps the coordinated"
        f" protocol takes {faster} of the time and {lighter} of the bytes; an event waits for it up to {delay:.0f} ms"
        f" in the mean of the longest waits, for swaps up to {own:.0f} ms."
    )
    return judged(
        measured,
        besides=[
            Condition("neither breaks what it promises", not broken),
            Condition("events wait less for swaps", own < delay),
        ],
    )


def _out_of_order(summaries: Sequence[Summary]) -> list[str]:
    causal = _most(summaries, Rule.CAUSAL.value, ordering=Ordering.CAUSAL.value)
    fifo = max(_most(summaries, Rule.FIFO.value, ordering=kept.value) for kept in (Ordering.FIFO, Ordering.CAUSAL))
    return [name for name, count in (("fifo order", fifo), ("causal order", causal)) if count]


def _most(summaries: Sequence[Summary], metric: str, **wanted: str) -> float:
    return max((s.maximum for s in select(summaries, metric, **wanted)), default=0.0)


def _ratios(summaries: Sequence[Summary], metric: str) -> str:
    pairs = zip(*(_by_cycle(summaries, metric, protocol=protocol) for protocol in PROTOCOLS), strict=True)
    shares = [coordinated.mean / swaps.mean for swaps, coordinated in pairs]
    return f"{min(shares):.0%} to {max(shares):.0%}" if shares else "an unknown share"


PUBLISHED = (
    "SwapLink adds no delay and works for any two trees by composition; advanced coordinated reconfiguration exchanges"
    " a link at once and delays events (S0 Table I). Nobody has measured one beside the other."
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
        Table(
            name="swap-or-cycle-table",
            paper="S0 Table I",
            title="Swaps / the whole cycle at once, in causal order",
            published=PUBLISHED,
            write=page,
            judge=judge,
        ),
    ),
    cost=cost,
)
