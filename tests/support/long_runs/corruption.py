"""Damage to a broker's table under load, on nine broker processes: correct again within the stated bound.

Prints a line per round: the broker, what went wrong, when the last of it did, and by how much the brokers' counters
rose. The exit code is 1 if the verdict is not clean.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pleach.scenario.model import Stabiliser
from pleach.trace import explain
from support.live.corruption_rounds import MENDED, SHARE, Damage, line, run_rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--what", default="table", help="table, flags, clock, clients, waits, all, all-but-the-clock")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--kind", choices=sorted(MENDED), default=Stabiliser.LEASES.value)


def run(options: Namespace) -> int:
    damage = Damage(options.what, options.share, Stabiliser(options.kind))
    found = run_rounds(options.rounds, options.seed, options.place, damage)
    for each in found.rounds:
        say(line(each))
    counts, verdict = found.verdict.counts, found.verdict
    before = found.rounds[0].before["lease_expired"]
    say(
        f"{found.result.scenario.routing.value}: {len(found.rounds)} rounds, {counts.published:,} published,"
        f" {counts.deliveries:,} delivered, {counts.set_aside} set aside, {before} expired before the first;"
        f" {verdict.outcome.value}"
    )
    if not verdict.clean:
        say("\n".join([*found.result.unrest, explain(verdict, found.result.records)]))
    return 0 if verdict.clean else 1
