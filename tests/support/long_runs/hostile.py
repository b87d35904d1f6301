"""Thousands of hostile connections against one real broker, while a publisher and a subscriber go about their work.

Then bits are flipped in data directories, and brokers started on them.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import msgspec

from support.live import disk_damage, hostile
from support.live.hostile_acts import ACTS
from support.long_runs.output import say

LOG_SHOWN_MAX = 6_000


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--flips", type=int, default=20, help="bits to flip on disk, each for a broker to start on")
    parser.add_argument("--durable", action="store_true", help="with a data directory")
    parser.add_argument(
        "--only", default="", help=f"acts, separated by commas; otherwise all: {', '.join(sorted(ACTS))}"
    )


def run(options: Namespace) -> int:
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
