"""The setting of S4 §5: fourteen brokers, clients that move between 1 and 13, or 2 and 14, every ten seconds.

Subscriptions come in families, as in S4 Fig. 7: the workload says which of a family covers which, and families have
nothing in common. S4 draws ten subscriptions and gives them to 400 clients. It does not give the number that one root
covers; with ten to a family it is nine, with one family of all clients 399. Both are measured. Odd subscriptions begin
at broker 1, even ones at broker 2, as in S4.

Brokers take a time for each message, one after the other (`service`). S4 has no figure for it, and without one floods
cost nothing. Ours follows from a report of S4: 1,000 clients, a hundred movements a second, did not slow the
transaction down. A broker in the middle handles eight messages of each of our movements, hence 1 ms.

PADRES, which S4 measured, scans a broker's subscriptions for each one that comes or goes with covering, once for each
neighbour; the transaction was measured without covering, where there is nothing to compare. S4 has no figure for that
either. `scan_us` is what one of them takes, in microseconds: none, as with an index such as ours, or 5, which is less
than the 16 that one comparison takes in our own Python.

S4 gives neither publishers nor latencies of its cluster: there are no publishers here, and links take 0.2 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random

from pleach.core.effects import Concluded
from pleach.core.messages import Message, Node
from pleach.core.mobility.resettling import MoveProtocol
from pleach.lab.experiment import Case, Sample
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import MoveClient
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun

FAMILY = 10  # S4 Fig. 7
SERVICE_SECONDS = 0.001
SCAN_US = 5
MICRO = 1e-6
NEAR = Span(0.0002, 0.0002)
FAR = Span(0.020, 0.080)  # between brokers of a wide-area network: S4's PlanetLab
PAUSE_SECONDS = 10.0
SETTLE_SECONDS = 5.0  # until subscriptions are everywhere

# S4 Fig. 6, and where further brokers are put: off the ways of the clients.
LINKS = (
    *(("1", "3"), ("2", "3"), ("3", "4"), ("4", "5"), ("5", "6"), ("5", "7"), ("4", "8")),
    *(("8", "9"), ("9", "10"), ("9", "11"), ("8", "12"), ("12", "13"), ("12", "14")),
)
ASIDE = ("6", "7", "10", "11")
BROKERS = 14
ROUTES = (("1", "13"), ("2", "14"))


class CoveringWorkload(StrEnum):
    """Who covers whom within a family."""

    DISTINCT = "distinct"
    CHAINED = "chained"
    TREE = "tree"
    COVERED = "covered"
    RANDOM = "random"  # families of the four, drawn
    MIXED = "mixed"  # as many families of each


SHAPES = (CoveringWorkload.COVERED, CoveringWorkload.TREE, CoveringWorkload.CHAINED, CoveringWorkload.DISTINCT)


@dataclass(frozen=True)
class Movers:
    """`family`: how many subscriptions are in one. `moving`: how many of the clients move, those of `order` first.

    `scan_us`: for each subscription of a broker's table that it goes through, where routing compares.
    """

    workload: CoveringWorkload
    protocol: MoveProtocol
    clients: int
    family: int
    moving: int
    brokers: int = BROKERS
    is_far: bool = False
    scan_us: float = 0.0

    @property
    def routing(self) -> Routing:
        """S4's transaction does without covering; the others rely on it."""
        return Routing.SIMPLE if self.protocol is MoveProtocol.TRANSACTION else Routing.COVERING


def movers_scenario(setting: Movers, seed: int, duration: float) -> Scenario:
    """The same for every protocol but for the routing."""
    links = (*LINKS, *((ASIDE[i % len(ASIDE)], str(i + 1)) for i in range(BROKERS, setting.brokers)))
    shapes = shapes_of(setting, seed)
    latencies = tuple((a, b, FAR) for a, b in links) if setting.is_far else ()
    return Scenario(
        name=f"movers {seed}",
        routing=setting.routing,
        ordering=Ordering.NONE,
        root="1",
        links=links,
        brokers=tuple(dict.fromkeys(broker for link in links for broker in link)),
        duration=duration,
        latency=PerLink(NEAR, latencies),
        service=SERVICE_SECONDS,
        service_per_entry=setting.scan_us * MICRO,
        clients=tuple(_client(number, setting.family, shapes) for number in range(setting.clients)),
    )


def shapes_of(setting: Movers, seed: int) -> list[CoveringWorkload]:
    """Of each family."""
    count = -(-setting.clients // setting.family)
    match setting.workload:
        case CoveringWorkload.RANDOM:
            draw = Random(f"families/{seed}")
            return [draw.choice(SHAPES) for _ in range(count)]
        case CoveringWorkload.MIXED:
            return [SHAPES[i * len(SHAPES) // count] for i in range(count)]
        case shape:
            return [shape] * count


def order(setting: Movers, seed: int) -> list[Node]:
    """Who moves first where not all do (S4, "incremental"): roots, those they cover, and those that cover none."""
    shapes = shapes_of(setting, seed)
    roots: list[int] = []
    covered: list[int] = []
    alone: list[int] = []
    for number in range(setting.clients):
        family, place = divmod(number, setting.family)
        if shapes[family] is CoveringWorkload.DISTINCT:
            alone.append(number)
        else:
            (covered if place else roots).append(number)
    Random(f"covered/{seed}").shuffle(covered)
    step = len(roots) // 3 if setting.workload is CoveringWorkload.MIXED else len(covered)
    return [f"k{number}" for number in (*roots, *covered[:step], *alone, *covered[step:])]


def route_of(client: Node) -> tuple[Node, Node]:
    return ROUTES[int(client[1:]) % 2]


def _client(number: int, size: int, shapes: list[CoveringWorkload]) -> ScenarioClient:
    family, place = divmod(number, size)
    low, high = interval(shapes[family], place, size)
    wanted = f"family = {family} AND x >= {low} AND x <= {high}"
    return ScenarioClient(id=f"k{number}", broker=ROUTES[number % 2][0], subscribe=(wanted,))


def interval(shape: CoveringWorkload, place: int, size: int) -> tuple[int, int]:
    """What the subscription at this place (from 0) wants of its family's values: from … to, both included."""
    match shape:
        case CoveringWorkload.CHAINED:  # each covers the next
            return place, 2 * size - place
        case (
            CoveringWorkload.TREE
        ):  # each covers two: in the order of a heap, each level twice as fine as the one above
            level = (place + 1).bit_length() - 1
            width = 1 << (size.bit_length() - level)
            first = (place + 1 - (1 << level)) * width
            return first, first + width - 1
        case CoveringWorkload.COVERED if place == 0:
            return 0, size
        case _:
            return place, place


# Runs -----------------------------------------------------------------------------------------------------------------

BEGIN = SETTLE_SECONDS + PAUSE_SECONDS  # by then all have begun to move
LATENCY, MESSAGES, MOVES, REFUSED = "latency", "messages per move", "moves per second", "refused"


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Seconds of each movement; messages per movement; movements per second."""
    yield from Course(setting_of(case), seed, float(case["seconds"])).samples()


def setting_of(case: Case) -> Movers:
    return Movers(
        CoveringWorkload(str(case["workload"])),
        MoveProtocol(str(case["protocol"])),
        clients=int(case["clients"]),
        family=int(case["family"]),
        moving=int(case["moving"]),
        brokers=int(case["brokers"]),
        is_far=bool(case["is_far"]),
        scan_us=float(case["scan_us"]),
    )


class Course:
    """One run. `seconds`: how long it is looked at."""

    def __init__(self, setting: Movers, seed: int, seconds: float) -> None:
        self._setting = setting
        self._end = BEGIN + seconds
        self._seconds = seconds
        self._run = ScenarioRun(movers_scenario(setting, seed, self._end), seed, kinds=frozenset())
        assert self._run.sim.on_concluded
        self._go_on = self._run.sim.on_concluded
        self._run.sim.on_concluded = self._concluded
        self._run.sim.on_send = self._sent
        self._began: dict[Node, float] = {}
        self._latencies: list[float] = []
        self._count: Counter[str] = Counter()
        draw = Random(f"start/{seed}")
        for client in order(setting, seed)[: setting.moving]:
            self._run.sim.at(SETTLE_SECONDS + PAUSE_SECONDS * draw.random(), partial(self._start, client))

    def samples(self) -> Iterator[Sample]:
        self._run.sim.run()
        for seconds in self._latencies:
            yield Sample(LATENCY, seconds)
        yield Sample(MESSAGES, self._count[MESSAGES] / max(1, len(self._latencies)))
        yield Sample(MOVES, self._count[MOVES] / self._seconds)
        yield Sample(REFUSED, self._count[REFUSED])

    def _start(self, client: Node) -> None:
        run = self._run
        if run.sim.now >= self._end:
            return
        here, there = route_of(client)
        to = there if run.clients[client].broker == here else here
        self._began[client] = run.sim.now
        step = MoveClient(at=run.sim.now, client=client, to=to, protocol=self._setting.protocol)
        run.operations.move(step, run.clients[client])

    def _concluded(self, at: float, node: Node, end: Concluded) -> None:
        step = next(each.step for each in self._run.operations.under_way if each.name == end.operation)
        assert isinstance(step, MoveClient)
        began = self._began.pop(step.client)
        if end.refusal:
            self._count[REFUSED] += 1
        elif began >= BEGIN:
            self._latencies.append(at - began)
        self._count[MOVES] += BEGIN <= at < self._end
        self._run.sim.at(at + PAUSE_SECONDS, partial(self._start, step.client))
        self._go_on(at, node, end)

    def _sent(self, at: float, sender: Node, receiver: Node, _message: Message) -> None:
        """Between brokers, as S4 counts."""
        brokers = self._run.brokers
        self._count[MESSAGES] += at >= BEGIN and sender in brokers and receiver in brokers
