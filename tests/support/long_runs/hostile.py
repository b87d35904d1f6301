"""Thousands of hostile connections against one real broker, while a publisher and a subscriber go about their work.

Then bits are flipped in data directories, and brokers started on them. Then come sessions in which all is drawn by lot:
against chains of real brokers, one for each kind of settings, and many more against a broker without its sockets.
"""

from __future__ import annotations

import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from support.live import disk_damage, hostile, hostile_node, hostile_random
from support.live.hostile_acts import ACTS
from support.long_runs.output import say

LOG_SHOWN_MAX = 6_000
ALL_KINDS = tuple(dict.fromkeys((*hostile_random.KINDS, *hostile_node.KINDS)))


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--random", type=int, default=10_000, help="sessions drawn by lot, of all kinds together")
    parser.add_argument("--blocks", type=int, default=20, help="of 200 sessions without sockets, for each kind")
    parser.add_argument(
        "--kinds", default="", help=f"of settings, separated by commas; otherwise {', '.join(ALL_KINDS)}"
    )
    parser.add_argument("--flips", type=int, default=20, help="bits to flip on disk, each for a broker to start on")
    parser.add_argument("--durable", action="store_true", help="with a data directory")
    parser.add_argument(
        "--only", default="", help=f"acts, separated by commas; otherwise all: {', '.join(sorted(ACTS))}"
    )


def run(options: Namespace) -> int:
    failures = 0
    if options.connections:
        failures += _acts(options)
    if not options.only:
        kinds = [kind for kind in options.kinds.split(",") if kind] or list(ALL_KINDS)
        failures += _random(options, [kind for kind in kinds if kind in hostile_random.KINDS])
        failures += _without_sockets(options, [kind for kind in kinds if kind in hostile_node.KINDS])
    return 1 if failures else 0


def _random(options: Namespace, kinds: list[str]) -> int:
    """How many kinds of settings have not held."""
    failures = 0
    for number, kind in enumerate(kinds):
        sessions = options.random // len(kinds) + (number < options.random % len(kinds))
        verdict = hostile_random.run(kind, sessions, options.seed, options.place) if sessions else None
        if verdict is not None:
            say(msgspec.json.encode(verdict).decode())
            failures += bool(verdict.faults)
    return failures


def _without_sockets(options: Namespace, kinds: list[str]) -> int:
    failures = 0
    for kind in kinds:
        found = hostile_node.Findings()
        with quiet():
            for seed in range(options.seed, options.seed + options.blocks):
                hostile_node.run_block(kind, seed, found)
        slowest = f"the slowest turn took {1_000 * found.slowest_seconds:,.0f} ms"
        say(f"{kind}: {found.sessions:,} sessions without sockets in {found.seconds:,.0f} s; {slowest}")
        for key, first in found.first.items():
            say(f"{found.counts[key]} times: python tests/long_run.py hostile --connections 0 --random 0 {first}")
        failures += bool(found.first)
    return failures


def _acts(options: Namespace) -> int:
    names = [name for name in options.only.split(",") if name] or sorted(ACTS)
    verdict = hostile.run(
        options.connections,
        options.seed,
        options.place,
        durable=options.durable,
        names=names,
        flooded=not options.only,
    )
    say(msgspec.json.format(msgspec.json.encode(verdict), indent=2).decode())
    if verdict.faults:
        say((options.place / "b.log").read_text(encoding="utf-8")[-LOG_SHOWN_MAX:])
    damage = disk_damage.faults_of_flips(options.place, options.seed, options.flips) if not options.only else []
    for fault in damage:
        say(fault)
    return 1 if verdict.faults or damage else 0


@contextmanager
def quiet() -> Iterator[None]:
    """Without what a broker logs: thousands of refusals."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
