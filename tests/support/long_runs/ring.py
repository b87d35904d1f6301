"""Brokers of a ring that come and go at once, round by round under load: one tree each time, and a clean trace."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from support.live.ring_rounds import rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=20)


def run(options: Namespace) -> int:
    verdict, meaning, took = asyncio.run(rounds(options.rounds, options.seed, options.place))
    deliveries = f"{verdict.counts.deliveries:,} deliveries"
    say(f"{len(took)} rounds, the slowest tree {max(took):.1f} s, {deliveries}: {verdict.outcome}")
    if not verdict.clean:
        say(meaning)
    return 0 if verdict.clean else 1
