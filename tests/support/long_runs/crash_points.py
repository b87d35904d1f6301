"""`kill -9` at every step of swap, add and remove, at every broker that takes part, before and after its commit."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from support.live.crash_points import chosen, crash_points
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--points", type=int, default=100)


def run(options: Namespace) -> int:
    points = chosen(options.points, options.seed)
    report = asyncio.run(crash_points(points, options.seed, options.place, say=say))
    say("\n".join(report.lines()))
    return 0 if report.is_good else 1
