"""The measured Table I: every protocol that exchanges a link, on the same seeds of one workload.

Each case is one protocol, one order, one length of the cycle and one load; each seed is run twice. In the lively run
clients (un)subscribe during the exchange: it shows what breaks, and how long things take. In the steady one nobody
does: it shows what the exchange costs, and which tables it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

from pleach.errors import PleachError
from pleach.lab.consequences import Exchanged, costs, guarantees, run_exchange, times
from pleach.lab.exchanges import Workload, workload_scenario
from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, Table, select
from pleach.lab.promises import Promise, Row, promised, rows
from pleach.lab.table1_page import page
from pleach.scenario.model import Ordering

EVENTS_PER_SECOND = MappingProxyType({"low": 5.0, "high": 50.0})  # of each of four publishers
CYCLES = {Size.QUICK: (3, 6), Size.USUAL: tuple(range(3, 13)), Size.FULL: tuple(range(3, 13))}
LOADS = {Size.QUICK: ("low",), Size.USUAL: ("low", "high"), Size.FULL: ("low", "high")}


def cases(size: Size) -> list[Case]:
    return [
        {"protocol": row.protocol, "ordering": row.ordering.value, "cycle": cycle, "load": load}
        for row in rows()
        for cycle in CYCLES[size]
        for load in LOADS[size]
    ]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """An exchange that does not come to its end says so, and gives no other samples."""
    lively, steady = (_exchanged(case, seed, is_lively=is_lively) for is_lively in (True, False))
    if lively is None or steady is None:
        yield Sample("stuck", 1)
        return
    yield Sample("stuck", 0)
    yield from guarantees(lively)
    yield from times(lively)
    yield from costs(steady)


def _exchanged(case: Case, seed: int, *, is_lively: bool) -> Exchanged | None:
    """None where it has no end: an algorithm as printed may leave brokers locked, or send where nobody listens."""
    rate = EVENTS_PER_SECOND[str(case["load"])]
    workload = Workload(int(case["cycle"]), events_per_second=rate, is_lively=is_lively)
    scenario = workload_scenario(workload, seed, str(case["protocol"]), Ordering(str(case["ordering"])))
    try:
        exchanged = run_exchange(scenario, seed)
    except PleachError:
        return None
    return exchanged if exchanged.is_complete else None


# The picture --------------------------------------------------------------------------------------------------

PANELS = MappingProxyType(
    {
        "lost": "events lost",
        "duplicate": "events delivered twice",
        "extra_ms": "mean extra delay (ms)",
        "overhead": "overhead in hops (S2)",
    }
)


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    load = "high" if select(summaries, "lost", load="high") else "low"
    for axis, (metric, label) in zip(axes, PANELS.items(), strict=True):
        for row in rows():
            points = _curve(summaries, metric, row, load)
            axis.plot([s.case["cycle"] for s in points], [s.mean for s in points], marker=".", label=row.name)
        axis.set_xlabel("brokers on the cycle")
        axis.set_ylabel(f"{label}, {load} load")
        axis.set_yscale("symlog", linthresh=1.0)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize="x-small")


def _curve(summaries: Sequence[Summary], metric: str, row: Row, load: str) -> list[Summary]:
    found = select(summaries, metric, protocol=row.protocol, ordering=row.ordering.value, load=load)
    return sorted(found, key=lambda s: int(s.case["cycle"]))


# Judgement ----------------------------------------------------------------------------------------------------


def judge(summaries: Sequence[Summary]) -> Finding:
    broken = [
        f"{row.name} breaks {promise.name.lower().replace('_', ' ')}"
        for row in rows()
        for promise in Promise
        if promise in promised(row) and _most(summaries, promise.value, row) > 0
    ]
    stuck = [row.name for row in rows() if _most(summaries, "stuck", row) > 0]
    afterwards = [row.name for row in rows() if _most(summaries, "broken_afterwards", row) > 0]
    parts = [
        f"Promised and not kept: {'; '.join(broken)}." if broken else "Every promise is kept.",
        f"Without an end in some runs: {', '.join(stuck)}." if stuck else "Every exchange comes to its end.",
        f"Not whole afterwards: {', '.join(afterwards)}." if afterwards else "Afterwards all deliver everything.",
        _growth(summaries),
        _overheads(summaries),
    ]
    is_as_said = not (broken or stuck or afterwards)
    return Finding(Status.REPRODUCED if is_as_said else Status.DIFFERS, " ".join(filter(None, parts)))


def _most(summaries: Sequence[Summary], metric: str, row: Row) -> float:
    found = select(summaries, metric, protocol=row.protocol, ordering=row.ordering.value)
    return max((s.maximum for s in found), default=0.0)


STRAWMAN = Row("strawman", Ordering.CAUSAL)


def _growth(summaries: Sequence[Summary]) -> str:
    """S1 Fig. 4.15, on this workload."""
    said = []
    for metric, words in (("lost", "loses"), ("duplicate", "doubles")):
        curve = _curve(summaries, metric, STRAWMAN, "high")
        third = len(curve) // 3
        if not third:
            return ""
        short, long = (fmean(s.mean for s in part) for part in (curve[:third], curve[-third:]))
        said.append(f"{words} {short:.1f} events on the shortest third of the cycles and {long:.1f} on the longest")
    return f"The strawman {', and '.join(said)}."


def _overheads(summaries: Sequence[Summary]) -> str:
    """S1 Fig. 4.14: below the strawman at every length."""
    said = []
    for protocol in ("advanced-coordinated", "path"):
        row = Row(protocol, Ordering.CAUSAL)
        pairs = [
            (s.case["cycle"], s.mean / straw.mean)
            for load in EVENTS_PER_SECOND
            for s, straw in zip(
                _curve(summaries, "overhead", row, load), _curve(summaries, "overhead", STRAWMAN, load), strict=True
            )
        ]
        cycle, worst = max(pairs, key=lambda pair: pair[1])
        said.append(f"{protocol} {fmean(share for _, share in pairs):.0%} (at most {worst:.0%}, at a cycle of {cycle})")
    return f"Overhead against the strawman's: {', '.join(said)}."


PUBLISHED = (
    "Only advanced coordinated reconfiguration (S1) and SwapLink (S0) lose and double nothing and keep an order;"
    " SwapLink alone adds no delay (S0 Table I). The others may lose, double and reorder events, and all but the path"
    " protocol and those two change tables outside the cycle (S1 §4.4.1, S2 §4.2)."
)

TABLE1 = Experiment(
    name="table1",
    about="every protocol that exchanges a link, on the same seeds: what each breaks, delays, costs and locks",
    cases=cases,
    seeds={Size.QUICK: 1, Size.USUAL: 8, Size.FULL: 50},
    measure=measure,
    figures=(
        Figure(
            name="table1-cycle",
            paper="S1 §4.4.3",
            title="What an exchange breaks, delays and costs, by the length of its cycle",
            published="Losses, duplicates, messages and delays grow with the cycle (S1 Fig. 4.14–4.16).",
            draw=draw,
            judge=judge,
            panels=len(PANELS),
        ),
    ),
    tables=(
        Table(
            name="table1",
            paper="S0 Table I, S1 §4.4.1",
            title="Protocols that exchange a link, measured",
            published=PUBLISHED,
            write=page,
            judge=judge,
        ),
    ),
    cost=lambda case: EVENTS_PER_SECOND[str(case["load"])] + float(case["cycle"]),
)
