"""Brokers with the whole profile that join, are destroyed and taken out, in rounds under load: one network per seed."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from support.live.tended_rounds import BROKERS, rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--brokers", type=int, default=BROKERS)


def run(options: Namespace) -> int:
    report = asyncio.run(rounds(options.rounds, options.seed, options.place, brokers=options.brokers, say=say))
    verdict = report.verdict
    assert verdict is not None
    slowest = max(seconds for _, seconds in report.took)
    deliveries = f"{verdict.counts.deliveries:,} deliveries, {report.exchanged} exchanges by the council"
    say(f"{len(report.took)} steps, the slowest {slowest:.1f} s, {deliveries}: {verdict.outcome}")
    return 0 if verdict.clean else 1
