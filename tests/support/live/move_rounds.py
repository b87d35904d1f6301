"""Clients that go to and fro between broker processes, under load: nothing may be lost, doubled or out of order.

    python tests/support/live/move_rounds.py --seconds 120 --peers

A hundred clients on nine brokers, each subscribed to a topic of its own, and 1,000 events a second. Each client moves
to another broker and back, again and again. The exit code is 1 if the verdict is not clean.

With `--peers` the same number of clients, with the same pauses and events, then do so at servers of other systems, as
far as these are installed: there they disconnect, and connect elsewhere. What was lost is told; it judges nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from pleach.bench.peers.moving import Plan, moved
from pleach.bench.peers.registry import MOVING
from pleach.core.messages import RequestMove
from pleach.core.overlay.plans import Topology
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.trace import Verdict, explain, judge
from support.live.fleet import Fleet, Witness

LINKS = (("b", "a"), ("c", "b"), ("d", "c"), ("e", "b"), ("f", "c"), ("g", "f"), ("h", "a"), ("i", "d"))
CLIENTS = 100
EVENTS_PER_SECOND = 1_000.0
PUBLISHERS = 5
PAUSE_SECONDS = 8.0  # on average, between two movements of a client
MOVE_SECONDS_MAX = 60.0
PEER_SERVERS = 3


@dataclass
class Rounds:
    """`ends`: of movements, by how they ended. `seconds`: how long those took that were done."""

    ends: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    verdict: Verdict | None = None
    explained: str = ""


class End(NamedTuple):
    """When clients stay where they are: at this time, if they have moved so often by then, all together."""

    at: float
    moves_min: int


@dataclass(frozen=True)
class Traveller:
    name: str
    here: str
    there: str

    async def to_and_fro(self, fleet: Fleet, tree: Topology, rounds: Rounds, end: End, rng: Random) -> None:
        here, there = self.here, self.there
        while True:
            await asyncio.sleep(PAUSE_SECONDS * rng.uniform(0.2, 1.8))
            if time.monotonic() >= end.at and rounds.ends[OperationState.DONE.value] >= end.moves_min:
                return
            admin = (fleet.directory.admin[here], fleet.directory.admin[there])
            moving = ClientMove(RequestMove(fresh_name(), self.name, list(tree.path(here, there))), admin)
            began = time.monotonic()
            state, reason = await moving.carry_out(seconds_max=MOVE_SECONDS_MAX)
            rounds.ends[state.value + (f": {reason}" if reason else "")] += 1
            if state is OperationState.DONE:
                rounds.seconds.append(time.monotonic() - began)
                here, there = there, here


async def move_rounds(
    place: Path,
    *,
    seconds: float,
    links: Sequence[tuple[str, str]] = LINKS,
    clients: int = CLIENTS,
    per_second: float = EVENTS_PER_SECOND,
    seed: int = 1,
    moves_min: int = 0,
) -> Rounds:
    """Start a tree of brokers, let clients move for so long, and so often, and judge what they saw."""
    rng, tree, rounds = Random(seed), Topology.of(links), Rounds()
    travellers = [Traveller(f"k{n}", *rng.sample(tree.brokers, 2)) for n in range(clients)]
    async with Fleet(place) as fleet, Witness("moves") as witness:
        await fleet.grow(links)
        for number, each in enumerate(travellers):
            await witness.connect(each.name, fleet.client_address(each.here), subscribe=f"topic = {number}")
        for number in range(PUBLISHERS):
            await witness.connect(f"p{number}", fleet.client_address(rng.choice(tree.brokers)))
        for topic in range(clients):
            witness.load(f"p{topic % PUBLISHERS}", per_second / clients, topic=topic)
        end = End(time.monotonic() + seconds, moves_min)
        await asyncio.gather(*(each.to_and_fro(fleet, tree, rounds, end, rng) for each in travellers))
        if await witness.drain():
            rounds.verdict = judge(witness.recorder.records)
            rounds.explained = "" if rounds.verdict.clean else explain(rounds.verdict, witness.recorder.records)
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--events", type=float, default=EVENTS_PER_SECOND, help="per second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", action="store_true", help="NATS and Mosquitto as well, where they are installed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        asked = move_rounds(
            Path(scratch), seconds=given.seconds, clients=given.clients, per_second=given.events, seed=given.seed
        )
        rounds = asyncio.run(asked)
    say("\n".join(told(rounds)))
    if given.peers:
        plan = Plan(PEER_SERVERS, given.clients, PUBLISHERS, given.events, given.seconds, PAUSE_SECONDS, given.seed)
        for line in told_of_peers(plan):
            say(line)
    return 0 if rounds.verdict and rounds.verdict.clean else 1


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def told_of_peers(plan: Plan) -> Iterator[str]:
    """One after the other: they would disturb each other."""
    for system in MOVING:
        if missing := system.missing():
            yield f"{system.name}: skipped, {missing} is not installed"
            continue
        with tempfile.TemporaryDirectory() as scratch:
            losses = asyncio.run(moved(system, plan, Path(scratch)))
        yield f"{losses} ({plan.servers} servers; by disconnecting and connecting elsewhere)"


def told(rounds: Rounds) -> Iterator[str]:
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


if __name__ == "__main__":
    sys.exit(main())
