"""A network that exists only here: as many brokers as wanted, traffic, and a tree that changes all the time.

For looking at the dashboard itself. Links are changed by the same steps as in a real tree; nothing is routed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from random import Random
from typing import Any

from pleach.core.events.filter import Filter
from pleach.core.messages import Node
from pleach.core.overlay.plans import Plan, PlanOutcome, PlanRun, SwapStep, Topology
from pleach.core.overlay.plans.steps import apply, spelled
from pleach.errors import InvalidInputError
from pleach.operate.apply import StepEnd, Watch
from pleach.operate.operation import OperationState, OperationStep, fresh_name
from pleach.operate.operation import OperationStatus as Asked
from pleach.operate.survey import BrokerStatus, NeighbourStatus, Survey
from pleach.operate.survey import ClientStatus as Session
from pleach.web.chronicle import Chronicle
from pleach.web.draft import Draft, Tell, draft_of_plan
from pleach.web.journeys import Journeys, planned_drain, planned_move
from pleach.web.picture import Broker, Client, Counters, Kind, Link, Picture, Source, link_key
from pleach.web.wishes import CAN, Drain, Move, Wish, planned

BROKERS_MAX = 5_000
DEGREE_MAX = 4
ZONES = ("fra", "iad", "nrt", "gru", "syd", "sin")
CLIENTS_PER_BROKER = 2
SWAP_SECONDS = 3.0  # between changes that nobody asked for, about; fewer in small trees
PHASE_SECONDS = 0.5
PHASES = ("locked", "flooding", "swapping", "adopted")
PUBLISHED_PER_SECOND = 40.0  # per broker


class SimulatedSource:
    def __init__(self, brokers: int, seed: int) -> None:
        self._rng = Random(seed)
        self._tree = _grown(brokers, self._rng)
        self._zones = _zones(self._tree)
        self._load = {link: self._rng.lognormvariate(9.0, 1.2) for link in self._tree.links}  # bytes per second
        homes = self._tree.brokers
        self._clients = {f"client-{i}": self._rng.choice(homes) for i in range(CLIENTS_PER_BROKER * brokers)}
        self._chronicle = Chronicle()
        self._busy: dict[Node, str] = {}  # brokers that take part in an operation, and in which
        self._steps = 0
        self._swaps: set[asyncio.Task[None]] = set()
        self._swapped_at = self._began_at = time.time()

    async def look(self) -> Picture:
        at = time.time()
        pause = SWAP_SECONDS / math.sqrt(len(self._tree) / 10)
        if at - self._swapped_at > pause:
            self._swapped_at = at
            self._swap_somewhere()
        homes = Counter(self._clients.values())
        brokers = {name: self._broker(name, homes[name]) for name in self._tree.brokers}
        self._chronicle.saw(brokers, at)
        rate = PUBLISHED_PER_SECOND * len(self._tree)
        return Picture(
            source=Source(Kind.SIMULATED, f"{len(self._tree):,} simulated brokers", CAN),
            at=at,
            brokers=brokers,
            links={link_key(a, b): self._link(a, b, at) for a, b in self._tree.links},
            clients={client: Client(home, subscriptions=1) for client, home in self._clients.items()},
            operations=self._chronicle.operations,
            notices=self._chronicle.notices,
            counters=Counters(
                published=int(rate * (at - self._began_at)),
                delivered=int(3 * rate * (at - self._began_at)),
                publish_rate=rate,
                deliver_rate=3 * rate,
            ),
        )

    def _broker(self, name: Node, clients: int) -> Broker:
        operation = self._busy.get(name, "")
        held = self._rng.randrange(30) if operation else 0
        return Broker(self._zones.get(name, ZONES[0]), operation=operation, clients=clients, held=held)

    def _link(self, a: Node, b: Node, at: float) -> Link:
        """Loads that come and go slowly; a link that is new has one of its own."""
        mean = self._load.setdefault((a, b), self._rng.lognormvariate(9.0, 1.2))
        wave = 1 + 0.5 * math.sin(at / 7 + mean)
        near = self._zones.get(a) == self._zones.get(b)
        queued = self._rng.randrange(200) if self._rng.random() < 0.01 else 0
        trip = 0.002 if near else 0.08
        there, back = round(mean * wave), round(mean * wave / 3)
        return Link(a, b, there=there, back=back, queued_there=queued, round_trip=trip)

    # Changes ---------------------------------------------------------------------------------------------------

    def _swap_somewhere(self) -> None:
        a = self._rng.choice(self._tree.brokers)
        ways = [(b, c) for b in self._tree.neighbours(a) for c in self._tree.neighbours(b) if c != a]
        if not ways:
            return
        b, c = self._rng.choice(ways)
        if len(self._tree.neighbours(c)) >= DEGREE_MAX or {a, b, c} & self._busy.keys():
            return
        task = asyncio.create_task(self._carried(fresh_name(), SwapStep(a, b, c), (a, b, c)))
        self._swaps.add(task)
        task.add_done_callback(self._swaps.discard)

    async def _carried(self, name: str, step: Any, brokers: tuple[Node, ...]) -> None:
        """One step through its phases; the tree changes in the last one."""
        asked = Asked(name, spelled(step).partition(" ")[0], brokers)
        self._busy.update(dict.fromkeys(brokers, name))
        for phase in PHASES:
            for number, broker in enumerate(brokers):
                self._steps += 1
                taken = OperationStep(
                    self._steps, time.time(), name, f"{'abcdefgh'[number % 8]} {phase}", self._steps, 0
                )
                self._chronicle.heard(broker, [asked], [taken])
            await asyncio.sleep(PHASE_SECONDS)
        self._tree = apply(self._tree, step)
        for broker in brokers:
            self._busy.pop(broker, None)
        asked.state, asked.ended_at = OperationState.DONE, time.time()

    async def draft(self, wish: Wish) -> Draft:
        match wish:
            case Drain():
                return self._draft_of(planned_drain(self._survey(), wish), 1 / wish.rate)
            case Move():
                return self._draft_of(planned_move(self._survey(), wish), PHASE_SECONDS)
            case _:
                plan = planned(wish, self._tree)
                return draft_of_plan(plan, lambda watch: self._run(plan, watch))

    async def _run(self, plan: Plan, watch: Watch) -> PlanOutcome:
        """One step after another: it is only for show."""
        run = PlanRun(plan, fresh_name())
        while not run.is_over:
            operation = next(iter(run.startable()))
            run.started(operation.name)
            watch.started(operation)
            await self._carried(operation.name, operation.step, operation.brokers)
            run.done(operation.name)
            watch.ended(StepEnd(operation, OperationState.DONE, "", PHASE_SECONDS * len(PHASES)))
        for gone in sorted({*plan.start.brokers} - {*plan.result.brokers}):
            heir = self._tree.brokers[0]
            self._clients = {c: heir if home == gone else home for c, home in self._clients.items()}
        return run.outcome()

    def _survey(self) -> Survey:
        """As brokers would tell it, so that what is refused of them is refused here."""
        found = {}
        for name in self._tree.brokers:
            neighbours = {other: NeighbourStatus(up=True, queued=0) for other in self._tree.neighbours(name)}
            found[name] = BrokerStatus(name, ready=True, durable=False, reasons=[], neighbours=neighbours, clients={})
        for client, home in self._clients.items():
            found[home].clients[client] = Session(up=True, queued=0, subscriptions_count=1)
        return Survey(found, dict.fromkeys(found, ""))

    def _draft_of(self, journeys: Journeys, pause: float) -> Draft:
        async def carry_out(tell: Tell) -> str:
            for number, moving in enumerate(journeys.moves):
                tell(number, "running", "")
                await asyncio.sleep(pause)
                self._clients[moving.client] = moving.path[-1]
                at = time.time()
                asked = Asked(moving.operation, f"move {moving.client}", moving.path, OperationState.DONE, ended_at=at)
                self._chronicle.heard(moving.path[0], [asked], [])
                tell(number, "done", "")
            return ""

        return Draft(journeys.shown, journeys.steps, carry_out)

    # The rest --------------------------------------------------------------------------------------------------

    async def detail(self, broker: Node) -> dict[str, Any]:
        clients = {c: {"up": True, "subscriptions": {}} for c, home in self._clients.items() if home == broker}
        return {"name": broker, "clients": clients}

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:  # noqa: ARG002 - nobody is
        return {}

    async def film(self, run: str) -> dict[str, Any]:
        raise InvalidInputError(f"no run {run!r}: these brokers are simulated")


def _grown(count: int, rng: Random) -> Topology:
    """A random tree of few neighbours each, its brokers named by number."""
    width = len(str(count))
    names = [f"b{i:0{width}}" for i in range(1, count + 1)]
    free = {names[0]: DEGREE_MAX}
    links = []
    for name in names[1:]:
        parent = rng.choice(list(free)[-200:])
        links.append((parent, name))
        free[parent] -= 1
        if not free[parent]:
            del free[parent]
        free[name] = DEGREE_MAX - 1
    return Topology.of(links, names[:1])


def _zones(tree: Topology) -> dict[Node, str]:
    """Parts that hang together, of about one size: the largest is cut in two until there are enough."""
    parts = [{*tree.brokers}]
    while len(parts) < min(len(ZONES), len(tree)):
        largest = max(parts, key=len)
        half = _half(tree, largest)
        parts.remove(largest)
        parts += [half, largest - half]
    return {name: zone for zone, part in zip(ZONES, parts, strict=False) for name in sorted(part)}


def _half(tree: Topology, part: set[Node]) -> set[Node]:
    """A branch of a part of the tree that has as near as can be half of its brokers."""
    root = min(part)
    order, up = [root], {root: root}
    for here in order:
        for there in tree.neighbours(here):
            if there in part and there not in up:
                up[there] = here
                order.append(there)
    below: dict[Node, set[Node]] = {name: {name} for name in order}
    for name in reversed(order[1:]):
        below[up[name]] |= below[name]
    return min((below[name] for name in order[1:]), key=lambda branch: abs(2 * len(branch) - len(part)))
