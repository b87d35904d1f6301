"""Charts of a soak as SVG files: figures over minutes, with the moments when something was wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 800, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 34
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito
TICKS = 5
FONT = 'font-family="DejaVu Sans, sans-serif" font-size="12"'


@dataclass(frozen=True)
class Curve:
    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """`at`: minutes. `marks`: minutes at which something was wrong."""

    title: str
    at: Sequence[float]
    curves: Sequence[Curve]
    marks: Sequence[float] = ()

    def svg(self) -> str:
        return "\n".join(self._parts()) + "\n"

    def _parts(self) -> Iterator[str]:
        top = _round_up(max((value for curve in self.curves for value in curve.values), default=0.0))
        end = max([*self.at, 1e-9])
        yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>'
        yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        yield f'<text x="{LEFT}" y="18" font-size="13">{escape(self.title)}</text>'
        for number in range(TICKS + 1):
            value, minute = top * number / TICKS, end * number / TICKS
            y, x = _y(value, top), _x(minute, end)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
            yield f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{minute:.0f} min</text>'
        for mark in self.marks:
            x = _x(mark, end)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#cc0000" opacity="0.6"/>'
        for number, curve in enumerate(self.curves):
            colour = COLOURS[number % len(COLOURS)]
            points = " ".join(
                f"{_x(minute, end):.1f},{_y(value, top):.1f}"
                for minute, value in zip(self.at, curve.values, strict=True)
            )
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
            x = WIDTH - RIGHT - 150 * (len(self.curves) - number - 1)
            yield f'<text x="{x}" y="18" text-anchor="end" fill="{colour}">{escape(curve.name)}</text>'
        yield "</svg>"


def _x(minute: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * minute / end


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, …"""
    if value <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return next(scale * step for step in (1, 2, 5, 10) if value <= scale * step)
