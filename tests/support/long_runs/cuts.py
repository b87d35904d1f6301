"""Ways between two neighbours that are cut while both live: how long no event passes, and that none is lost.

Four brokers in a row under load, new ones for each cut of the link in the middle. Told per cut: the longest time
without an event from beyond it, when the link was relayed, and when it was direct again. The exit code is 1 if anything
was lost, doubled or reordered. `--direct` does the same without relays: then events wait.
"""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser, Namespace
from itertools import product
from pathlib import Path

from support.live.cut_peers import PEERS, peer_round
from support.live.cut_rounds import KINDS, cut_rounds
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each cut")
    parser.add_argument("--rounds", type=int, default=3, help="networks, one after the other")
    parser.add_argument("--events", type=float, default=400.0, help="per second, of all publishers together")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[], help="other systems under the same cuts")
    parser.add_argument("--direct", action="store_true", help="without relays")


def run(options: Namespace) -> int:
    wrong: list[str] = []
    settings = () if options.direct else ("--relay",)
    for number, kind in product(range(options.rounds), options.kinds):
        place = options.place / f"{kind}-{number}"
        place.mkdir(parents=True, exist_ok=True)
        rounds = cut_rounds([kind], options.seconds, place, options.events, settings=settings, say=say)
        report = asyncio.run(rounds)
        say(f"    {json.dumps(report.figures())}")
        wrong += report.wrong
        for peer in options.peers:
            asyncio.run(_peer(peer, kind, options, place))
    say("\n".join(wrong))
    return 1 if wrong else 0


async def _peer(name: str, kind: str, options: Namespace, place: Path) -> None:
    folder = place / f"{name}-{kind}"
    folder.mkdir()
    await peer_round(name, kind, options.seconds, folder, options.events, say=say)
