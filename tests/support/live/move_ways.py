"""Clients that go to and fro between broker processes: the transaction beside the other two ways, by workload (S4 §5).

Nine brokers, S4's tree cut down: two ways of four links, which share the middle. Subscriptions are those of S4 Fig. 7,
in families of ten, or with `--family 60` all in one. Nobody publishes, so that all that brokers send each other is due
to movements. The transaction is measured without covering, as in S4, and with it, as brokers are by default. The other
two are what a client can do by itself: `covering` unsubscribes, goes, and subscribes again; `reconnect` goes at once.
A movement is over when all that the client wants is installed from where it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean
from typing import NamedTuple

import msgspec

import pleach
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.overlay.plans import Topology
from pleach.lab.s4.movers import FAMILY, SHAPES, CoveringWorkload, Movers, interval, shapes_of
from pleach.net.http_client import ask
from pleach.operate.moves import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from support.live.fleet import Fleet

LINKS = (("1", "3"), ("2", "3"), ("4", "3"), ("4", "5"), ("4", "8"), ("8", "9"), ("8", "12"), ("12", "13"))
ROUTES = (("1", "12"), ("2", "12"))
WORKLOADS = (*SHAPES, CoveringWorkload.RANDOM)
WAYS = (
    ("simple", MoveProtocol.TRANSACTION),
    ("covering", MoveProtocol.TRANSACTION),
    ("covering", MoveProtocol.COVERING),
    ("covering", MoveProtocol.RECONNECT),
)
CLIENTS, PAUSE_SECONDS, SECONDS = 60, 4.0, 8.0
MOVE_SECONDS_MAX, QUIET_SECONDS, QUIET_ROUNDS_MAX = 60.0, 0.3, 200


class Cell(msgspec.Struct, frozen=True):
    """What one way gave with one workload. Times are in milliseconds."""

    workload: str
    routing: str
    way: str
    moves: int
    mean_ms: float
    median_ms: float
    slowest_ms: float
    messages_per_move: float


@dataclass(frozen=True)
class Plan:
    clients: int = CLIENTS
    family: int = FAMILY
    seconds: float = SECONDS
    pause: float = PAUSE_SECONDS
    links: Sequence[tuple[str, str]] = LINKS
    routes: Sequence[tuple[str, str]] = ROUTES
    seed: int = 1

    def wanted(self, workload: CoveringWorkload) -> list[str]:
        """The subscription of each client, as in the simulated experiment."""
        setting = Movers(workload, MoveProtocol.COVERING, clients=self.clients, family=self.family, moving=0)
        shapes = shapes_of(setting, self.seed)
        places = [divmod(number, self.family) for number in range(self.clients)]
        ranges = [(family, *interval(shapes[family], place, self.family)) for family, place in places]
        return [f"family = {family} AND x >= {low} AND x <= {high}" for family, low, high in ranges]


@dataclass
class Mover:
    """A client, and how it gets from one end of its way to the other."""

    name: str
    wanted: str
    here: str
    there: str
    fleet: Fleet
    path: tuple[str, ...]
    seconds: list[float] = field(default_factory=list)
    client: pleach.Client | None = None

    async def settle(self) -> None:
        client = pleach.connect(self.fleet.client_address(self.here), name=self.name, connect_timeout=MOVE_SECONDS_MAX)
        self.client = await client.__aenter__()
        await client.subscribe(self.wanted, name="s", callback=lambda _event: None)

    async def leave(self) -> None:
        assert self.client
        await self.client.close()

    async def to_and_fro(self, way: MoveProtocol, pause: float, until: float, rng: Random) -> None:
        while True:
            await asyncio.sleep(pause * rng.uniform(0.2, 1.8))
            if time.monotonic() >= until and self.seconds:
                return
            began = time.monotonic()
            await (self._transact() if way is MoveProtocol.TRANSACTION else self._resettle(way))
            self.seconds.append(time.monotonic() - began)

    async def _transact(self) -> None:
        admin = (self.fleet.directory.admin[self.here], self.fleet.directory.admin[self.there])
        state, reason = await ClientMove(fresh_name(), self.name, self.path, admin).carry_out(
            seconds_max=MOVE_SECONDS_MAX
        )
        assert state is OperationState.DONE, reason
        self._turn()

    async def _resettle(self, way: MoveProtocol) -> None:
        assert self.client
        if way is MoveProtocol.COVERING:
            await self.client.unsubscribe("s")
        await self.client.close()
        self._turn()
        await self.settle()

    def _turn(self) -> None:
        self.here, self.there, self.path = self.there, self.here, self.path[::-1]


async def compared(place: Path, plan: Plan, workloads: Sequence[CoveringWorkload] = WORKLOADS) -> AsyncIterator[Cell]:
    """Every way with every workload, one after the other: they would disturb each other."""
    for routing in sorted({routing for routing, _ in WAYS}):
        home = place / routing
        home.mkdir()
        async with Fleet(home, f"--routing={routing}") as fleet:
            await fleet.grow(plan.links)
            for workload in workloads:
                for way in (way for known, way in WAYS if known == routing):
                    yield await measured(fleet, plan, workload, routing, way)


async def measured(fleet: Fleet, plan: Plan, workload: CoveringWorkload, routing: str, way: MoveProtocol) -> Cell:
    rng, tree = Random(plan.seed), Topology.of(plan.links)
    movers = []
    for number, wanted in enumerate(plan.wanted(workload)):
        here, there = plan.routes[number % len(plan.routes)]
        name = f"{workload.value}-{way.value}-{number}"  # no namesakes: a broker may still know who has just left
        movers.append(Mover(name, wanted, here, there, fleet, tree.path(here, there)))
    await asyncio.gather(*(mover.settle() for mover in movers))
    before = await quiet(fleet)
    until = time.monotonic() + plan.seconds
    await asyncio.gather(*(mover.to_and_fro(way, plan.pause, until, rng) for mover in movers))
    messages = await quiet(fleet) - before
    await asyncio.gather(*(mover.leave() for mover in movers))
    await quiet(fleet)
    took = sorted(seconds * 1e3 for mover in movers for seconds in mover.seconds)
    times = (mean(took), took[len(took) // 2], took[-1])
    return Cell(workload.value, routing, way.value, len(took), *times, messages / len(took))


async def quiet(fleet: Fleet) -> int:
    """How many messages brokers have sent each other, once it does not grow any more and all have been taken."""
    traffic = Traffic(-1, 0)
    for _ in range(QUIET_ROUNDS_MAX):
        before, traffic = traffic, await _traffic(fleet)
        if traffic == before and not traffic.queued:
            return traffic.sent
        await asyncio.sleep(QUIET_SECONDS)
    raise AssertionError("brokers go on and on telling each other something")


class Traffic(NamedTuple):
    sent: int
    queued: int  # of these: not confirmed yet


async def _traffic(fleet: Fleet) -> Traffic:
    found = [(await ask(admin, "/status")).value for admin in fleet.directory.admin.values()]
    links = [link for status in found for link in status["neighbours"].values()]
    return Traffic(sum(link["sent"] for link in links), sum(link["queued"] for link in links))
