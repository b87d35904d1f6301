"""Scales of axes, with numbers as people write them: 1,000 and 0.01, not 10³ and 10⁻²."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pleach.lab.experiment import Summary

TOP = 1.35


def plain(value: float, _position: int | None = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1 or not value else f"{value:g}"


def percent(share: float, _position: int | None = None) -> str:
    return f"{share:.0%}"


def from_zero(axes: Any, points: Sequence[Summary]) -> None:
    """Up to a little above the highest mean, even where intervals are wider."""
    axes.set_ylim(0.0, TOP * max((point.mean for point in points), default=1.0) or 1.0)


def logarithmic_x(axes: Any, values: Sequence[float]) -> None:
    """With a tick at each value that was measured."""
    axes.set_xscale("log")
    axes.set_xticks(sorted(set(values)), minor=False)
    axes.xaxis.set_major_formatter(plain)
    axes.xaxis.set_minor_formatter("")
    axes.minorticks_off()


def logarithmic_y(axes: Any, *, zero_below: float | None = None) -> None:
    """`zero_below`: where the scale is linear, so that 0 can be shown."""
    if zero_below is None:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=zero_below)
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(plain)
