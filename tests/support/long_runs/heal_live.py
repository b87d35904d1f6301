"""`kill -9` of brokers for good under load, on real processes: stand-ins take their places, and events go on.

The exit code is 1 if a verdict is not clean, or a gap in the stream of events was longer than five seconds.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from random import Random

from support.live.heal_rounds import ROUNDS_PER_NETWORK, deaths_of, one_network
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", type=float, default=20.0, help="events per second of each publisher")
    parser.add_argument("--pairs", action="store_true", help="two neighbours die at once")


def run(options: Namespace) -> int:
    left, seed, bad = options.rounds, options.seed, 0
    while left > 0:
        deaths = deaths_of(Random(seed), min(left, ROUNDS_PER_NETWORK), pairs=options.pairs)
        ordering = ("causal", "fifo")[seed % 2]
        place = options.place / str(seed)
        place.mkdir(parents=True, exist_ok=True)
        rounds, verdict, told = asyncio.run(one_network(deaths, seed, place, ordering=ordering, rate=options.rate))
        counts = verdict.counts
        say(
            f"seed {seed}, {ordering}: {counts.published:,} published, {counts.deliveries:,} delivered,"
            f" {counts.departed} lost with brokers: {verdict.outcome.value}"
        )
        if not verdict.clean:
            say(told)
        bad += sum(each.is_bad for each in rounds) + (not verdict.clean)
        left, seed = left - len(deaths), seed + 1
    return 1 if bad else 0
