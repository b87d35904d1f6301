"""Figures and judgements of S4 Fig. 8 to 14: latency on the left, messages per movement on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pleach.lab.experiment import Figure, Finding, Status, Summary, Value, select
from pleach.lab.look import curve
from pleach.lab.mover_runs import LATENCY, MESSAGES
from pleach.lab.movers import Workload
from pleach.lab.scales import logarithmic_y
from pleach.lab.trends import ordered
from pleach.mobility.resettling import MoveProtocol

WORKLOADS, CLIENTS, SINGLE, MOVING, TOPOLOGY, WIDE = "workloads", "clients", "single", "moving", "topology", "wide"

TRANSACTION, COVERING, RECONNECT = (
    MoveProtocol.TRANSACTION.value,
    MoveProtocol.COVERING.value,
    MoveProtocol.RECONNECT.value,
)
NAMES = {TRANSACTION: "transaction", COVERING: "covering protocol", RECONNECT: "reconnecting"}
SHOWN = (Workload.DISTINCT, Workload.CHAINED, Workload.TREE, Workload.COVERED, Workload.RANDOM)

MS = 1_000.0
FASTER_MIN = 10.0  # what S4 claims of means
FLAT_MAX = 1.25  # the most by which the highest mean of a curve that is called flat is above the lowest


class Curves:
    """What was measured of one figure, looked up by protocol."""

    def __init__(self, summaries: Sequence[Summary], part: str, x: str) -> None:
        self._summaries = summaries
        self._part = part
        self._x = x

    def of(self, metric: str, protocol: str, **more: Value) -> list[Summary]:
        return ordered(select(self._summaries, metric, part=self._part, protocol=protocol, **more), self._x)

    def draw(self, axes: Any, protocols: Sequence[str], label: str) -> None:
        for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
            for protocol in protocols:
                curve(panel, self.of(metric, protocol), self._x, NAMES[protocol], scale=scale)
            _dress(panel, metric)
            panel.set_xlabel(label)
        axes[0].legend()

    def ratios(self) -> list[float]:
        """The covering protocol's mean latencies, in those of the transaction."""
        pairs = zip(self.of(LATENCY, COVERING), self.of(LATENCY, TRANSACTION), strict=True)
        return [theirs.mean / ours.mean for theirs, ours in pairs]


def _dress(axes: Any, metric: str) -> None:
    logarithmic_y(axes)
    axes.set_ylabel("ms for a movement" if metric == LATENCY else metric)


def spread(points: Sequence[Summary]) -> float:
    """How flat a curve is: the highest mean in terms of the lowest."""
    means = [point.mean for point in points]
    return max(means) / min(means)


def _status(*, flat: bool, ratio: float) -> Status:
    if ratio <= 1.0:
        return Status.REFUTED
    return Status.REPRODUCED if flat and ratio >= FASTER_MIN else Status.DIFFERS


# Workloads (Fig. 8, 9, and 14 in a wide area) ------------------------------------------------------------------


def _by_workload(summaries: Sequence[Summary], part: str, metric: str, protocol: str, *, wide: bool) -> list[Summary]:
    """`wide`: the largest families that were measured, else the smallest."""
    choose = max if wide else min
    points = [select(summaries, metric, part=part, protocol=protocol, workload=name.value) for name in SHOWN]
    return [choose(found, key=lambda point: float(point.case["family"])) for found in points]


def draw_workloads(axes: Any, summaries: Sequence[Summary], part: str = WORKLOADS) -> None:
    drawn = [(TRANSACTION, False, ""), (COVERING, False, ""), (COVERING, True, ", one family"), (RECONNECT, True, "")]
    if part == WIDE:
        drawn = [(TRANSACTION, False, ""), (COVERING, True, "")]
    for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
        for protocol, wide, more in drawn:
            points = _by_workload(summaries, part, metric, protocol, wide=wide)
            names = [str(point.case["workload"]) for point in points]
            panel.plot(names, [point.mean * scale for point in points], label=NAMES[protocol] + more)
        _dress(panel, metric)
    axes[0].legend()


def judge_workloads(summaries: Sequence[Summary]) -> Finding:
    ours = _by_workload(summaries, WORKLOADS, LATENCY, TRANSACTION, wide=False)
    narrow, wide = (_by_workload(summaries, WORKLOADS, LATENCY, COVERING, wide=wide) for wide in (False, True))
    ratio = _ratio_max(wide, ours)
    slowest = max(wide, key=lambda point: point.maximum)
    messages = [_by_workload(summaries, WORKLOADS, MESSAGES, p, wide=True) for p in (TRANSACTION, COVERING)]
    measured = (
        f"The transaction takes {_range(ours)} ms over the workloads, and {_range(messages[0], 1.0)} messages;"
        f" the covering protocol {_range(narrow)} ms in families of {narrow[0].case['family']},"
        f" {_range(wide)} ms where one root may cover all, and {_range(messages[1], 1.0)} messages. On average it is"
        f" {ratio:.1f} times as slow at most; its slowest movement takes {slowest.maximum * MS:,.0f} ms"
        f" ({slowest.case['workload']}), the transaction's {max(p.maximum for p in ours) * MS:,.0f} ms."
    )
    status = _status(flat=spread(ours) <= FLAT_MAX and spread(messages[0]) <= FLAT_MAX, ratio=ratio)
    return Finding(status, measured + ("" if status is Status.REPRODUCED else WHY))


def judge_wide(summaries: Sequence[Summary]) -> Finding:
    ours, theirs = (_by_workload(summaries, WIDE, LATENCY, p, wide=True) for p in (TRANSACTION, COVERING))
    messages = [_by_workload(summaries, WIDE, MESSAGES, p, wide=True) for p in (TRANSACTION, COVERING)]
    ratio = _ratio_max(theirs, ours)
    measured = (
        f"Over links of 20 to 80 ms the transaction takes {_range(ours)} ms and {_range(messages[0], 1.0)} messages,"
        f" the covering protocol {_range(theirs)} ms and {_range(messages[1], 1.0)}."
    )
    if ratio < FASTER_MIN:
        measured += (
            " What counts here is how often the path is gone along: four times by the transaction, twice by the"
            " covering protocol, whose unsubscription is answered at once; less where something covers. S4's machines"
            " were slow and shared, so that messages counted there, too."
        )
    return Finding(_status(flat=spread(ours) <= FLAT_MAX, ratio=ratio), measured)


def _ratio_max(theirs: Sequence[Summary], ours: Sequence[Summary]) -> float:
    return max(their.mean / our.mean for their, our in zip(theirs, ours, strict=True))


WHY = (
    " What S4 saw is there where a root covers hundreds: when it goes it floods the path, and all others wait behind"
    " it. Elsewhere the covering protocol is the faster one. An unsubscription is answered at once, so that it waits"
    " for one way there and back, the transaction for two; and since brokers tell each other differences only, and"
    " equal filters once, it handles fewer messages than the transaction, whose entries are confirmed link by link."
)


def _range(points: Sequence[Summary], scale: float = MS) -> str:
    means = [point.mean * scale for point in points]
    low, high = f"{min(means):,.0f}", f"{max(means):,.0f}"
    return low if low == high else f"{low}–{high}"


# The others ----------------------------------------------------------------------------------------------------


def _judge_curves(curves: Curves, along: str) -> Finding:
    """Both protocols along a parameter: S4 has the transaction flat, and the covering protocol far above it."""
    ours, theirs = curves.of(LATENCY, TRANSACTION), curves.of(LATENCY, COVERING)
    ratios = curves.ratios()
    first, last = ours[0].case[along], ours[-1].case[along]
    measured = (
        f"From {first:,} to {last:,} the transaction takes {ours[0].mean * MS:,.0f} to {ours[-1].mean * MS:,.0f} ms,"
        f" the covering protocol {theirs[0].mean * MS:,.0f} to {theirs[-1].mean * MS:,.0f} ms: {ratios[0]:.1f} to"
        f" {ratios[-1]:.1f} times as much. Messages per movement: {_range(curves.of(MESSAGES, TRANSACTION), 1.0)} and"
        f" {_range(curves.of(MESSAGES, COVERING), 1.0)}."
    )
    return Finding(_status(flat=spread(ours) <= FLAT_MAX, ratio=max(ratios)), measured)


def judge_topology(summaries: Sequence[Summary]) -> Finding:
    """S4 claims nothing here but that the size of the tree does not matter."""
    curves = Curves(summaries, TOPOLOGY, "brokers")
    found = [curves.of(metric, protocol) for protocol in (TRANSACTION, COVERING) for metric in (LATENCY, MESSAGES)]
    measured = (
        f"From {found[0][0].case['brokers']} to {found[0][-1].case['brokers']} brokers the transaction takes"
        f" {_range(found[0])} ms and {_range(found[1], 1.0)} messages, the covering protocol {_range(found[2])} ms and"
        f" {_range(found[3], 1.0)}."
    )
    return Finding(Status.REPRODUCED if max(map(spread, found)) <= FLAT_MAX else Status.DIFFERS, measured)


def judge_single(summaries: Sequence[Summary]) -> Finding:
    curves = Curves(summaries, SINGLE, "clients")
    ours, theirs, hasty = (curves.of(LATENCY, p)[0] for p in (TRANSACTION, COVERING, RECONNECT))
    messages = [curves.of(MESSAGES, p)[0].mean for p in (TRANSACTION, COVERING)]
    measured = (
        f"The root's own movement takes {ours.mean * MS:,.0f} ms and {messages[0]:,.0f} messages as a transaction, with"
        f" the covering protocol {theirs.mean * MS:,.0f} ms and {messages[1]:,.0f} messages:"
        f" {theirs.mean / ours.mean:.0f} times as long. Reconnecting takes {hasty.mean * MS:,.0f} ms, and loses events."
    )
    return Finding(_status(flat=True, ratio=theirs.mean / ours.mean), measured)


def draw_single(axes: Any, summaries: Sequence[Summary]) -> None:
    for panel, (metric, scale) in zip(axes, ((LATENCY, MS), (MESSAGES, 1.0)), strict=True):
        points = [Curves(summaries, SINGLE, "clients").of(metric, protocol)[0] for protocol in NAMES]
        panel.bar([NAMES[str(point.case["protocol"])] for point in points], [point.mean * scale for point in points])
        _dress(panel, metric)


def _drawn(part: str, x: str, label: str) -> Callable[[Any, Sequence[Summary]], None]:
    return lambda axes, summaries: Curves(summaries, part, x).draw(axes, (TRANSACTION, COVERING), label)


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
)
