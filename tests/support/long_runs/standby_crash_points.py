"""Machines destroyed at messages of swap, exchange, movement, membership, replication and promotion, on processes."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from support.live.standby_crash_points import chosen, crash_points
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=200, help="points, drawn at random")


def run(options: Namespace) -> int:
    points = chosen(options.count, options.seed)
    report = asyncio.run(crash_points(points, options.seed, options.place, say=say))
    say("\n".join(report.lines()))
    return 0 if report.is_good else 1
