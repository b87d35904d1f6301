"""Table I drawn and judged, from what `table1.py` measures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pleach.lab import figure_style
from pleach.lab.exchanges.promises import Promise, is_printed, promised
from pleach.lab.exchanges.table1 import EVENTS_PER_SECOND, ProtocolRow, cases, measure, rows
from pleach.lab.exchanges.table1_page import page
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.findings import Condition, Finding, Status, judged
from pleach.lab.trends import linear_growth, pooled, slope, trend
from pleach.scenario.model import Ordering

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
