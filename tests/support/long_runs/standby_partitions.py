"""Partitions of a network with standbys: halves, one broker, one direction only, a standby alone; and their cure.

Each network goes through one partition of each duration, of all kinds in turn. The exit code is 1 if a verdict is not
clean, a process has ended, or the network did not become one tree again; partitions after whose cure that, or the
delivery of what was published before, took longer than the bar are marked LATE.
"""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser, Namespace

from support.live.partition_rounds import DURATIONS, EVENTS_PER_SECOND, Report, partition_rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--durations", type=float, nargs="+", default=DURATIONS, help="seconds of each partition")
    parser.add_argument(
        "--events", type=float, default=EVENTS_PER_SECOND, help="per second, of all publishers together"
    )


def run(options: Namespace) -> int:
    report = Report()
    for number in range(options.networks):
        seed = options.seed + number
        place = options.place / f"seed-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        asyncio.run(partition_rounds(options.durations, seed, place, options.events, report, say=say))
        say(f"{number + 1}/{options.networks} networks, {len(report.partitions)} partitions, {len(report.late)} late")
    figures = report.figures()
    say(json.dumps(figures, indent=2))
    found = ", ".join(f"{rule} {count}" for rule, count in figures["found"].items())
    say(f"{len(report.partitions)} partitions; one tree after {figures['tree_seconds']} s, all delivered after")
    say(f"{figures['delivered_seconds']} s; late: {figures['late']}; found: {found}")
    say("\n".join(report.wrong))
    return 0 if report.is_good else 1
