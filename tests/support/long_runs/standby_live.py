"""Machines of nine brokers destroyed under load, one after the other: brokers come back elsewhere, nothing is lost.

In each round whatever runs on a random broker's machine is killed with `kill -9`, its folder is deleted, and another
machine is added. Several networks of some rounds each; the exit code is 1 if a verdict is not clean. Deaths after which
events took longer than the bars are marked LATE, and counted in the figures.
"""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser, Namespace

from support.live.standby_rounds import MOVERS, ROUNDS_PER_NETWORK, Report, Stage, one_network
from support.long_runs.output import say

BAR_WIDTH = 40


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rounds-per-network", type=int, default=ROUNDS_PER_NETWORK)
    parser.add_argument("--events", type=float, default=1_000.0, help="per second, of all publishers together")
    parser.add_argument("--movers", type=int, default=MOVERS, help="clients that move")


def run(options: Namespace) -> int:
    report, stage = Report(), Stage(options.events, options.movers)
    for first in range(0, options.rounds, options.rounds_per_network):
        seed = options.seed + first
        place = options.place / f"seed-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        rounds = min(options.rounds_per_network, options.rounds - first)
        asyncio.run(one_network(rounds, seed, place, stage, report, say=say))
        say(_bar(len(report.whole), options.rounds, report))
    say(json.dumps(report.figures(), indent=2))
    say("\n".join(told(report)))
    return 0 if report.is_good else 1


def _bar(done: int, wanted: int, report: Report) -> str:
    full = BAR_WIDTH * done // max(wanted, 1)
    found = sum(len(verdict.violations) for verdict in report.verdicts)
    return f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {done}/{wanted} rounds, {len(report.late)} late, {found} found"


def told(report: Report) -> list[str]:
    figures = report.figures()
    found = ", ".join(f"{rule} {count}" for rule, count in figures["found"].items())
    return [
        f"{figures['rounds']} rounds, {figures['brokers_lost']} brokers lost with their machines",
        f"across the gap after {figures['across_seconds']} s; own clients after {figures['back_seconds']} s",
        f"all copies whole again after {figures['whole_seconds']} s; late: {figures['bars']['late']}",
        f"{figures['published']:,} published, {figures['published_per_second']:,} a second",
        f"{figures['delivered']:,} delivered",
        f"moves: {figures['moves']}",
        f"found: {found}",
        *report.wrong,
    ]
