"""Random reconfigurations of a chain of five broker processes under load: nothing lost, doubled or out of order."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from support.live.reweave import EVENTS_PER_SECOND, reweave
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--reconfigurations", type=int, default=100)
    parser.add_argument("--events-per-second", type=float, default=EVENTS_PER_SECOND)


def run(options: Namespace) -> int:
    work = reweave(options.reconfigurations, options.seed, options.place, per_second=options.events_per_second)
    report = asyncio.run(work)
    say("\n".join(report.lines()))
    return 0 if report.is_good else 1
