"""Mutated frames and messages against the codec: they must raise what is promised, and nothing else."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from support.links.fuzz_frames import fuzz
from support.long_runs.output import say

ESCAPED_SHOWN_MAX = 10


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=100_000, help="rounds: one stream of frames and one message each")


def run(options: Namespace) -> int:
    tally = fuzz(options.count, options.seed)
    lines = [
        f"frames:   {tally.frames_read:,} read, {tally.frames_refused:,} streams refused",
        f"messages: {tally.messages_read:,} read, {tally.messages_refused:,} refused",
        f"escaped:  {len(tally.escaped)} {dict(tally.kinds_escaped)}",
        *(f"  {what}: {data!r}" for what, data in tally.escaped[:ESCAPED_SHOWN_MAX]),
    ]
    say("\n".join(lines))
    return 1 if tally.escaped else 0
