"""`kill -9` under load on nine broker processes: nothing may be lost, doubled or out of order."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pleach.trace import Rule, explain
from support.live.kill_rounds import run_rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--spacing", type=float, default=2.0, help="seconds between rounds")


def run(options: Namespace) -> int:
    result, verdict = run_rounds(options.rounds, options.seed, options.place, spacing=options.spacing)
    kills = sum(record.detail == "crash" for record in result.records)
    found = ", ".join(f"{rule.value} {verdict.count(rule)}" for rule in Rule)
    counts = f"{verdict.counts.published:,} published, {verdict.counts.deliveries:,} delivered"
    say(f"{options.rounds} rounds, {kills} brokers killed, {counts}: {found}; {verdict.outcome.value}")
    if not verdict.clean:
        say("\n".join([*result.unrest, explain(verdict, result.records)]))
    return 0 if verdict.clean else 1
