"""A consumer process that is stopped (SIGSTOP) in the middle of a stream, and what the others notice of it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

import msgspec

from support.live import slow_consumer
from support.live.slow_consumer import P99_RATIO_MAX, Plan
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=15.0, help="with all consumers, and again with one stopped")
    parser.add_argument("--rate", type=float, default=500.0, help="events per second")
    parser.add_argument("--limit", type=int, default=1_500_000, help="bytes that the broker keeps for a client")
    parser.add_argument("--durable", action="store_true", help="with a data directory")


def run(options: Namespace) -> int:
    plan = Plan(options.seconds, options.seconds, options.rate, options.limit)
    verdict = slow_consumer.run(plan, options.place, durable=options.durable)
    shown = {**msgspec.to_builtins(verdict), "p99_ratio": verdict.p99_ratio}
    say(json.dumps(shown, indent=2, ensure_ascii=False))
    return 1 if verdict.faults or verdict.p99_ratio > P99_RATIO_MAX else 0
