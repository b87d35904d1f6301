"""The style and the axes of all figures, readable at 800 pixels. Equal numbers give equal files, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from pleach.errors import MissingPartError
from pleach.lab.experiment import Figure, Summary

WIDTH_INCHES, HEIGHT_INCHES = 8.0, 4.8
ROW_INCHES = 3.8  # where there are several
PANELS_IN_A_ROW = 2
DOTS_PER_INCH = 120
BAND_ALPHA = 0.18
SUFFIXES = (".png", ".svg")

# Okabe and Ito: distinguishable for colour-blind readers. Markers and dashes distinguish curves in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), "-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))

STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "legend.title_fontsize": 10,
    "legend.frameon": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "errorbar.capsize": 3,
    "figure.facecolor": "white",
}
UNDATED = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}


def save(figure: Figure, summaries: Sequence[Summary], folder: Path) -> list[Path]:
    """Draw a figure into `<folder>/<name>.png` and `.svg`."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # ignores settings of the user
        matplotlib.rcParams.update(STYLE)
        matplotlib.rcParams["svg.hashsalt"] = figure.name
        matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(color=COLOURS, marker=MARKERS, linestyle=DASHES)
        sheet, axes = _sheet(matplotlib, figure)
        figure.draw(axes if figure.panels > 1 else axes[0], summaries)
        paths = [folder / f"{figure.name}{suffix}" for suffix in SUFFIXES]
        for path in paths:
            sheet.savefig(path, dpi=DOTS_PER_INCH, metadata=UNDATED[path.suffix])
    return paths


def _sheet(matplotlib: Any, figure: Figure) -> tuple[Any, list[Any]]:
    rows = ceil(figure.panels / PANELS_IN_A_ROW)
    height = HEIGHT_INCHES if rows == 1 else rows * ROW_INCHES
    sheet = matplotlib.figure.Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    axes = sheet.subplots(rows, min(figure.panels, PANELS_IN_A_ROW), squeeze=False).flatten().tolist()
    for unused in axes[figure.panels :]:
        unused.set_axis_off()
    sheet.suptitle(figure.title)
    return sheet, axes[: figure.panels]


def curve(axes: Any, points: Sequence[Summary], x: str, label: str, *, scale: float = 1.0) -> None:
    """Means over the parameter `x`, with their confidence intervals as a band. `scale` turns seconds into ms."""
    ordered = sorted(points, key=lambda point: float(point.case[x]))
    xs = [float(point.case[x]) for point in ordered]
    (line,) = axes.plot(xs, [point.mean * scale for point in ordered], label=label)
    lows, highs = [point.low * scale for point in ordered], [point.high * scale for point in ordered]
    axes.fill_between(xs, lows, highs, color=line.get_color(), alpha=BAND_ALPHA, linewidth=0)


def bars(axes: Any, points: Sequence[tuple[str, Summary]], *, label: str = "", scale: float = 1.0) -> None:
    """A mean per name, with its confidence interval."""
    names = [name for name, _ in points]
    means = [point.mean * scale for _, point in points]
    below = [(point.mean - point.low) * scale for _, point in points]
    above = [(point.high - point.mean) * scale for _, point in points]
    axes.bar(names, means, yerr=(below, above), label=label or None, ecolor="#444444")
    axes.grid(visible=False, axis="x")


def load_matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 an optional part, and slow to load
        import matplotlib.figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingPartError(f"{error.name} is not installed: pip install 'pleach[lab]'") from None
    return mpl


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
