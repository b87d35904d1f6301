"""A hundred clients that move between nine broker processes under load: nothing lost, doubled or out of order.

With `--peers` the same number of clients, with the same pauses and events, then do so at servers of other systems, as
far as these are installed: there they disconnect, and connect elsewhere. What these lose does not change the exit code.
"""

from __future__ import annotations

import asyncio
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from pleach.bench.systems.moving import MovingLoad, moved
from pleach.bench.systems.registry import MOVING
from support.live.move_rounds import CLIENTS, EVENTS_PER_SECOND, PAUSE_SECONDS, PUBLISHERS, Rounds, move_rounds
from support.long_runs.output import say

PEER_SERVERS = 3


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--events", type=float, default=EVENTS_PER_SECOND, help="per second")
    parser.add_argument("--peers", action="store_true", help="NATS and Mosquitto as well, where they are installed")


def run(options: Namespace) -> int:
    asked = move_rounds(
        options.place, seconds=options.seconds, clients=options.clients, per_second=options.events, seed=options.seed
    )
    rounds = asyncio.run(asked)
    say("\n".join(_told(rounds)))
    if options.peers:
        plan = MovingLoad(
            PEER_SERVERS, options.clients, PUBLISHERS, options.events, options.seconds, PAUSE_SECONDS, options.seed
        )
        for line in _told_of_peers(plan):
            say(line)
    return 0 if rounds.verdict and rounds.verdict.clean else 1


def _told_of_peers(plan: MovingLoad) -> Iterator[str]:
    """One after the other: they would disturb each other."""
    for system in MOVING:
        if missing := system.missing():
            yield f"{system.name}: skipped, {missing} is not installed"
            continue
        with tempfile.TemporaryDirectory() as scratch:
            losses = asyncio.run(moved(system, plan, Path(scratch)))
        yield f"{losses} ({plan.servers} servers; by disconnecting and connecting elsewhere)"


def _told(rounds: Rounds) -> Iterator[str]:
    for end, count in sorted(rounds.ends.items()):
        yield f"{count:,} movements {end}"
    if took := sorted(rounds.seconds):
        yield f"half of them within {took[len(took) // 2] * 1e3:,.0f} ms, the slowest {took[-1] * 1e3:,.0f} ms"
    if rounds.verdict is None:
        yield "it did not become quiet"
        return
    counts = rounds.verdict.counts
    yield f"{counts.published:,} events, {counts.deliveries:,} deliveries, clean: {rounds.verdict.clean}"
    if rounds.explained:
        yield rounds.explained
