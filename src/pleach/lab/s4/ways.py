"""The movement protocols that the figures of S4 compare, and their measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pleach.core.mobility.resettling import MoveProtocol
from pleach.lab.experiment import Summary, Value, select
from pleach.lab.figure_style import curve, logarithmic_y
from pleach.lab.s4.mover_runs import LATENCY, MESSAGES
from pleach.lab.s4.movers import SCAN_US
from pleach.lab.trends import ordered

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
