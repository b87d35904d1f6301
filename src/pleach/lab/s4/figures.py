"""Figures and findings of S4 Fig. 8 to 14: latency on the left, messages per movement on the right.

The brokers of S4 scan their tables with covering, so findings are based on such (`SCANNING`); values of brokers with an
index are given as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pleach.core.mobility.resettling import MoveProtocol
from pleach.lab.experiment import Figure, Summary, Value, select
from pleach.lab.figure_style import curve, logarithmic_y
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s4.movers import FAMILY, LATENCY, MESSAGES, SCAN_US, CoveringWorkload
from pleach.lab.trends import are_told_apart, as_told, ordered

MS = 1_000.0


class Way(NamedTuple):
    """`scan_us`: what a broker takes for each subscription of its table that it compares another one with."""

    name: str
    protocol: str
    scan_us: int = 0


TRANSACTION = Way("transaction", MoveProtocol.TRANSACTION.value)
COVERING = Way("covering protocol", MoveProtocol.COVERING.value)
SCANNING = Way("covering, no index", MoveProtocol.COVERING.value, SCAN_US)
RECONNECT = Way("reconnecting", MoveProtocol.RECONNECT.value)


class Curves:
    """What was measured of one figure, looked up by the way to move."""

    def __init__(self, summaries: Sequence[Summary], part: str, x: str) -> None:
        self._summaries = summaries
        self._part = part
        self._x = x

    def of(self, metric: str, way: Way, **more: Value) -> list[Summary]:
        wanted: dict[str, Value] = {"part": self._part, "protocol": way.protocol, "scan_us": way.scan_us}
        return ordered(select(self._summaries, metric, **{**wanted, **more}), self._x)

    def draw(self, axes: Any, ways: Sequence[Way], label: str) -> None:
        for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
            for way in ways:
                curve(panel, self.of(metric, way), self._x, way.name, scale=scale)
            dress(panel, metric)
            panel.set_xlabel(label)
        axes[0].legend()

    def ratios(self, way: Way) -> list[float]:
        """A way's mean latencies, in those of the transaction."""
        return ratios(self.of(LATENCY, way), self.of(LATENCY, TRANSACTION))


def dress(axes: Any, metric: str) -> None:
    logarithmic_y(axes)
    axes.set_ylabel("ms for a movement" if metric == LATENCY else metric)


def ratios(theirs: Sequence[Summary], ours: Sequence[Summary]) -> list[float]:
    return [their.mean / our.mean for their, our in zip(theirs, ours, strict=True)]


def spread(points: Sequence[Summary]) -> float:
    """How flat a curve is: the highest mean in terms of the lowest."""
    means = [point.mean for point in points]
    return max(means) / min(means)


def span(points: Sequence[Summary], scale: float = MS) -> str:
    """From the lowest mean to the highest, in words."""
    means = [point.mean * scale for point in points]
    low, high = f"{min(means):,.0f}", f"{max(means):,.0f}"
    return low if low == high else f"{low}–{high}"


WORKLOADS, CLIENTS, SINGLE, MOVING, TOPOLOGY, WIDE = "workloads", "clients", "single", "moving", "topology", "wide"
SCANS = "scans"

SHOWN = (
    CoveringWorkload.DISTINCT,
    CoveringWorkload.CHAINED,
    CoveringWorkload.TREE,
    CoveringWorkload.COVERED,
    CoveringWorkload.RANDOM,
)
FASTER_MIN = 10.0  # what S4 claims of means
FLAT_MAX = 1.25  # the most by which the highest mean of a curve that is called flat is above the lowest


def _faster(found: Sequence[float]) -> tuple[Condition, Condition]:
    """`found`: how many times as long as the transaction the covering protocol takes, at each point."""
    return (
        Condition("the transaction is faster somewhere", max(found) > 1.0),
        Condition(f"the transaction is {FASTER_MIN:g} times as fast everywhere", min(found) >= FASTER_MIN),
    )


def _flat(points: Sequence[Summary], what: str = "time") -> Condition:
    return Condition(f"the transaction's {what} is flat (within a factor of {FLAT_MAX})", spread(points) <= FLAT_MAX)


def _times(found: Sequence[float]) -> str:
    return f"{min(found):.1f} to {max(found):.1f} times"


# Workloads (Fig. 8, 9, and 14 in a wide area) ------------------------------------------------------------------


def _by_workload(summaries: Sequence[Summary], part: str, metric: str, way: Way, *, wide: bool) -> list[Summary]:
    """`wide`: the largest families that were measured, else the smallest."""
    choose = max if wide else min
    curves = Curves(summaries, part, "family")
    return [choose(curves.of(metric, way, workload=name.value), key=_family) for name in SHOWN]


def _family(point: Summary) -> float:
    return float(point.case["family"])


def draw_workloads(axes: Any, summaries: Sequence[Summary], part: str = WORKLOADS) -> None:
    drawn = [(TRANSACTION, True, ""), (COVERING, True, ""), (SCANNING, True, "")]
    if part == WORKLOADS:
        drawn += [(SCANNING, False, ", in tens"), (RECONNECT, True, "")]
    for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
        for way, wide, more in drawn:
            points = _by_workload(summaries, part, metric, way, wide=wide)
            names = [str(point.case["workload"]) for point in points]
            panel.plot(names, [point.mean * scale for point in points], label=way.name + more)
        dress(panel, metric)
    axes[1].legend(loc="lower right")  # where no curve is


def judge_workloads(summaries: Sequence[Summary]) -> Finding:
    ours = _by_workload(summaries, WORKLOADS, LATENCY, TRANSACTION, wide=True)
    indexed, scanned, narrow = (
        _by_workload(summaries, WORKLOADS, LATENCY, way, wide=wide)
        for way, wide in ((COVERING, True), (SCANNING, True), (SCANNING, False))
    )
    messages = [_by_workload(summaries, WORKLOADS, MESSAGES, way, wide=True) for way in (TRANSACTION, SCANNING)]
    found = ratios(scanned, ours)
    measured = (
        f"The transaction takes {span(ours)} ms over the workloads, and {span(messages[0], 1.0)} messages; the covering"
        f" protocol, where brokers take {SCANNING.scan_us} µs for each subscription they compare with,"
        f" {span(scanned)} ms and {span(messages[1], 1.0)} messages where one root may cover all, {span(narrow)} ms in"
        f" families of {FAMILY}: {_times(found)} as long ({_listed(found)}), in families of {FAMILY}"
        f" {_times(ratios(narrow, ours))}. With an index it is {_times(ratios(indexed, ours))}."
    )
    somewhere, everywhere = _faster(found)
    besides = [everywhere, _flat(ours), _flat(messages[0], "number of messages")]
    why = "" if all(condition.holds for condition in besides) else WHY
    return judged(measured + why, core=[somewhere], besides=besides)


def _listed(found: Sequence[float]) -> str:
    return ", ".join(f"{name.value} {times:.1f}" for name, times in zip(SHOWN, found, strict=True))


WHY = (
    " What S4 saw is there where a root covers hundreds and each message of the flood that its movement causes takes"
    " the broker longer the more it has: all others wait behind it. Where nothing hides much the covering protocol"
    " waits for one way there and back, the transaction for two; brokers tell each other differences only, and equal"
    " filters once, so that it handles fewer messages than the transaction, and what is covered moves in silence."
)


def judge_wide(summaries: Sequence[Summary]) -> Finding:
    ways = (TRANSACTION, COVERING, SCANNING)
    ours, indexed, scanned = (_by_workload(summaries, WIDE, LATENCY, way, wide=True) for way in ways)
    messages = [_by_workload(summaries, WIDE, MESSAGES, way, wide=True) for way in (TRANSACTION, SCANNING)]
    found = ratios(scanned, ours)
    measured = (
        f"Over links of 20 to 80 ms the transaction takes {span(ours)} ms and {span(messages[0], 1.0)} messages, the"
        f" covering protocol {span(scanned)} ms ({span(indexed)} with an index) and {span(messages[1], 1.0)}."
    )
    if min(found) < FASTER_MIN:
        measured += (
            " What counts here is how often the path is gone along: four times by the transaction, twice by the"
            " covering protocol, whose unsubscription is answered at once; less where something covers. S4's machines"
            " were slow and shared, how slow nobody knows, so that messages counted there, too."
        )
    fewer = all(mine.mean <= theirs.mean for mine, theirs in zip(*messages, strict=True))
    return judged(
        measured,
        core=[_is_faster_somewhere(ours, scanned)],
        besides=[_faster(found)[1], _flat(ours), Condition("the transaction sends no more", fewer)],
    )


def _is_faster_somewhere(ours: Sequence[Summary], theirs: Sequence[Summary]) -> Condition:
    """Of machines that S4 does not describe: it takes intervals to say that it is not so."""
    pairs = list(zip(ours, theirs, strict=True))
    is_slower = all(mine.mean > other.mean and are_told_apart(mine, other) for mine, other in pairs)
    if any(mine.mean < other.mean for mine, other in pairs):
        return Condition("the transaction is faster somewhere", holds=True)
    return as_told("the transaction is faster somewhere", False if is_slower else None, *ours, *theirs)


# Along a parameter ---------------------------------------------------------------------------------------------


def _judge_curves(curves: Curves, along: str) -> Finding:
    """S4 has the transaction flat, and the covering protocol far above it."""
    ours, scanned, indexed = (curves.of(LATENCY, way) for way in (TRANSACTION, SCANNING, COVERING))
    found = curves.ratios(SCANNING)
    measured = (
        f"From {ours[0].case[along]:,} to {ours[-1].case[along]:,} the transaction takes {_ends(ours)} ms, the covering"
        f" protocol {_ends(scanned)} ms, {_times(found)} as much; with an index {_ends(indexed)} ms,"
        f" {_times(curves.ratios(COVERING))} as much. Messages per movement:"
        f" {span(curves.of(MESSAGES, TRANSACTION), 1.0)} and {span(curves.of(MESSAGES, SCANNING), 1.0)}."
    )
    somewhere, everywhere = _faster(found)
    flat = _flat(ours)
    return judged(measured + ("" if flat.holds else BUSY), core=[somewhere], besides=[everywhere, flat])


# A broker in the middle handles eight messages of a movement, of 1 ms each: 80% of its time with a hundred a second.
BUSY = " The transaction is not flat: with a service time of 1 ms brokers on the way are busy for most of the time."


def _ends(points: Sequence[Summary]) -> str:
    return f"{points[0].mean * MS:,.0f} to {points[-1].mean * MS:,.0f}"


def judge_topology(summaries: Sequence[Summary]) -> Finding:
    """S4 claims nothing here but that the size of the tree does not matter."""
    curves = Curves(summaries, TOPOLOGY, "brokers")
    found = [curves.of(metric, way) for way in (TRANSACTION, COVERING, SCANNING) for metric in (LATENCY, MESSAGES)]
    measured = (
        f"From {found[0][0].case['brokers']} to {found[0][-1].case['brokers']} brokers the transaction takes"
        f" {span(found[0])} ms and {span(found[1], 1.0)} messages, the covering protocol {span(found[4])} ms"
        f" ({span(found[2])} with an index) and {span(found[5], 1.0)}."
    )
    is_flat = max(map(spread, found)) <= FLAT_MAX
    return judged(measured, besides=[Condition(f"all is flat (within a factor of {FLAT_MAX})", is_flat)])


def judge_single(summaries: Sequence[Summary]) -> Finding:
    curves = Curves(summaries, SINGLE, "clients")
    ours, scanned, indexed, hasty = (
        curves.of(LATENCY, way)[0].mean for way in (TRANSACTION, SCANNING, COVERING, RECONNECT)
    )
    messages = [curves.of(MESSAGES, way)[0].mean for way in (TRANSACTION, SCANNING)]
    measured = (
        f"The root's own movement takes {ours * MS:,.0f} ms and {messages[0]:,.0f} messages as a transaction, with"
        f" the covering protocol {scanned * MS:,.0f} ms and {messages[1]:,.0f} messages: {scanned / ours:.0f} times as"
        f" long, {indexed / ours:.0f} times with an index. Reconnecting takes {hasty * MS:,.0f} ms, and loses events."
    )
    somewhere, everywhere = _faster([scanned / ours])
    return judged(measured, core=[somewhere], besides=[everywhere])


def draw_single(axes: Any, summaries: Sequence[Summary]) -> None:
    ways = (TRANSACTION, COVERING, SCANNING, RECONNECT)
    for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
        points = [Curves(summaries, SINGLE, "clients").of(metric, way)[0] for way in ways]
        panel.bar([way.name.replace(" ", "\n") for way in ways], [point.mean * scale for point in points])
        dress(panel, metric)


# How slow brokers have to be -------------------------------------------------------------------------------------


def _scans(summaries: Sequence[Summary], metric: str, way: Way, *, wide: bool) -> list[Summary]:
    points = select(summaries, metric, part=SCANS, protocol=way.protocol)
    family = (max if wide else min)(_family(point) for point in points)
    return ordered([point for point in points if _family(point) == family], "scan_us")


def draw_scans(axes: Any, summaries: Sequence[Summary]) -> None:
    drawn = ((COVERING, False, ", families of ten"), (COVERING, True, ", one family"))
    for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
        for way, wide, more in drawn:
            curve(panel, _scans(summaries, metric, way, wide=wide), "scan_us", way.name + more, scale=scale)
        (ours,) = _scans(summaries, metric, TRANSACTION, wide=False)
        panel.axhline(ours.mean * scale, color="black", linestyle=":", label=TRANSACTION.name)
        panel.set_ylabel(metric)
        panel.set_xlabel("µs for each subscription compared with")
    dress(axes[0], LATENCY)
    axes[1].set_ylim(bottom=0.0)
    axes[0].legend()


def judge_scans(summaries: Sequence[Summary]) -> Finding:
    """Ten times or not is a matter of two figures that S4 does not give."""
    (ours,) = _scans(summaries, LATENCY, TRANSACTION, wide=False)
    narrow, wide = (_scans(summaries, LATENCY, COVERING, wide=wide) for wide in (False, True))
    at = ", ".join(f"{point.case['scan_us']}" for point in wide)
    measured = (
        f"With {at} µs for each subscription that a broker compares with, the covering protocol takes"
        f" {_row(wide, ours)} times as long as the transaction where one root covers all, {_row(narrow, ours)} where a"
        f" root covers {FAMILY - 1}. A movement of the root makes each broker on the path handle hundreds of messages,"
        " each of which takes it longer the more it has; while it does, others wait. The transaction compares nothing."
    )
    somewhere, everywhere = _faster([max(point.mean for point in points) / ours.mean for points in (narrow, wide)])
    return judged(measured, core=[somewhere], besides=[everywhere])


def _row(theirs: Sequence[Summary], ours: Summary) -> str:
    return ", ".join(f"{point.mean / ours.mean:.1f}" for point in theirs)


# All of them -----------------------------------------------------------------------------------------------------


def _drawn(part: str, x: str, label: str) -> Callable[[Any, Sequence[Summary]], None]:
    ways = (TRANSACTION, COVERING, SCANNING)
    return lambda axes, summaries: Curves(summaries, part, x).draw(axes, ways, label)


def _judged(part: str, x: str) -> Callable[[Sequence[Summary]], Finding]:
    return lambda summaries: _judge_curves(Curves(summaries, part, x), x)


def _figure(number: int, title: str, published: str, draw: Any, judge: Any) -> Figure:
    paper = "S4 Fig. 8 and 9" if number == 9 else f"S4 Fig. {number}"
    return Figure(f"s4-fig{number}", paper, title, published, draw, judge, panels=2)


FIGURES = (
    _figure(
        9,
        "A client's movement, by workload",
        "400 clients: the transaction is more than ten times as fast as the covering protocol, almost a hundred times"
        " in the worst workload (covered), and flat in time and messages; the covering protocol gets slower the more"
        " is covered.",
        draw_workloads,
        judge_workloads,
    ),
    _figure(
        10,
        "More clients",
        "400 to 1,000 clients: the transaction stays as fast and as cheap as it is, the covering protocol gets slower.",
        _drawn(CLIENTS, "clients", "clients"),
        _judged(CLIENTS, "clients"),
    ),
    _figure(
        11,
        "Only the root subscription moves",
        "Of 400 clients one moves, whose subscription covers all others: much slower and dearer with the covering"
        " protocol, since the others' subscriptions come out, and go back in.",
        draw_single,
        judge_single,
    ),
    _figure(
        12,
        "More of the clients move",
        "10 to 50 of 400 clients move, roots first, then those that cover less and less: the transaction is flat, the"
        " covering protocol gets slower up to 30, and better from there.",
        _drawn(MOVING, "moving", "clients that move"),
        _judged(MOVING, "moving"),
    ),
    _figure(
        13,
        "More brokers aside",
        "A larger tree with ways of the same length changes neither protocol much, in time or messages.",
        _drawn(TOPOLOGY, "brokers", "brokers"),
        judge_topology,
    ),
    _figure(
        14,
        "In a wide area",
        "100 clients on PlanetLab: the same trends, all of it slower; the transaction is faster, and sends less.",
        lambda axes, summaries: draw_workloads(axes, summaries, WIDE),
        judge_wide,
    ),
    Figure(
        "s4-scans",
        "S4 §5",
        "How slow brokers have to be for ten times",
        "More than ten times, almost a hundred in the worst case; S4 says neither how many subscriptions a root hides"
        " from others nor what a broker takes for one.",
        draw_scans,
        judge_scans,
        panels=2,
    ),
)
