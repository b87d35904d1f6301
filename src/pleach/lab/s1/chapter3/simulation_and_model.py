"""Simulation and model in one picture: points with their intervals, and a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pleach.lab.axis_scales import plain
from pleach.lab.experiment import Summary
from pleach.lab.s1.chapter3.model_agreement import expected

LINE_POINTS = 200


def versus(axes: Any, points: Sequence[Summary], label: str) -> None:
    """Points of one metric, by the number of subscriptions."""
    (line,) = axes.plot(*_modelled(points), marker="", label=label)
    xs = [float(point.case["subscriptions"]) for point in points]
    below = [max(point.mean - point.low, 0.0) for point in points]
    above = [max(point.high - point.mean, 0.0) for point in points]
    means = [point.mean for point in points]
    axes.errorbar(xs, means, (below, above), linestyle="", marker="o", markersize=4, color=line.get_color())
    axes.set_xlabel("active subscriptions (lines: model, points: simulation)")
    axes.xaxis.set_major_formatter(plain)


def _modelled(points: Sequence[Summary]) -> tuple[list[float], list[float]]:
    metric, case = points[0].metric, points[0].case
    counts = [float(point.case["subscriptions"]) for point in points]
    low, high = min(counts), max(counts)
    xs = [low + (high - low) * i / LINE_POINTS for i in range(LINE_POINTS + 1)]
    return xs, [expected(metric, {**case, "subscriptions": x}) for x in xs]
