"""One exchange of a link, by SwapLinks and by advanced coordinated reconfiguration: which when? (S0 §IV, S1 §4.4.2)

Both lose, double and reorder nothing. Swaps go one hop at a time through other trees, three brokers at once, and flood
events among the three meanwhile; the coordinated protocol locks the whole cycle, sends no event twice, and lets those
wait that come over the new link too early. The trees, latencies, clients and seeds are the same for both: those of
`exchanges.py`, and nobody (un)subscribes meanwhile, so that all routing messages are due to the exchange.

The rule that follows from it is `overlay.choice.recommended`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from pleach.lab.consequences import costs, guarantees, run_exchange, times
from pleach.lab.exchanges import Workload, workload_scenario
from pleach.lab.experiment import Case, Experiment, Figure, Sample, Size, Summary, Table, select
from pleach.lab.findings import Condition, Finding, judged
from pleach.scenario.model import Ordering
from pleach.trace import Rule

SWAPS, COORDINATED = "swaplink", "advanced-coordinated"
PROTOCOLS = (SWAPS, COORDINATED)
CYCLES = {Size.QUICK: (3, 6), Size.USUAL: tuple(range(3, 13)), Size.FULL: tuple(range(3, 13))}
ORDERINGS = {Size.QUICK: (Ordering.CAUSAL,), Size.USUAL: tuple(Ordering), Size.FULL: tuple(Ordering)}
RATES = (2.0, 10.0, 50.0)  # events a second of each of four publishers
LISTENERS = (8, 64)  # each with a filter of its own; twelve subscriptions come on top
USUAL_RATE, USUAL_LISTENERS = 10.0, 8
VARIED_CYCLES = {Size.QUICK: (), Size.USUAL: (4, 8, 12), Size.FULL: CYCLES[Size.FULL]}  # where rate and number vary
EVENT_BYTES = 760  # S0's default scenario; the workload's own events carry nothing

SHOWN = MappingProxyType(
    {
        "messages": "messages",
        "kilobytes": "KB",
        "completion_ms": "ms to completion",
        "extra_ms_max": "longest extra delay (ms)",
        "locked_broker_ms": "locked, broker·ms",
    }
)


def cases(size: Size) -> list[Case]:
    """The length of the cycle with every order, at the usual load; then the load, in causal order."""
    usual = [
        _case(protocol, ordering, cycle, USUAL_RATE, USUAL_LISTENERS)
        for protocol, ordering, cycle in product(PROTOCOLS, ORDERINGS[size], CYCLES[size])
    ]
    varied = [
        _case(protocol, Ordering.CAUSAL, cycle, rate, listeners)
        for protocol, cycle, rate, listeners in product(PROTOCOLS, VARIED_CYCLES[size], RATES, LISTENERS)
        if (rate, listeners) != (USUAL_RATE, USUAL_LISTENERS)
    ]
    return [*usual, *varied]


def _case(protocol: str, ordering: Ordering, cycle: int, rate: float, listeners: int) -> Case:
    return {
        "protocol": protocol,
        "ordering": ordering.value,
        "cycle": cycle,
        "rate": rate,
        "listeners": listeners,
    }


def measure(case: Case, seed: int) -> Iterator[Sample]:
    workload = Workload(
        int(case["cycle"]),
        events_per_second=float(case["rate"]),
        listeners=int(case["listeners"]),
        is_lively=False,
    )
    ordering = Ordering(str(case["ordering"]))
    exchanged = run_exchange(workload_scenario(workload, seed, str(case["protocol"]), ordering), seed)
    yield from guarantees(exchanged)
    yield from times(exchanged)
    found = list(costs(exchanged))
    yield from found
    known = {sample.metric: sample.value for sample in found}
    yield Sample("messages", known["control"] + known["misrouted"])
    yield Sample("kilobytes", (known["control_bytes"] + EVENT_BYTES * known["misrouted"]) / 1000.0)


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
    cost=lambda case: float(case["rate"]) + float(case["listeners"]) + float(case["cycle"]),
)
