"""S4's setting (§5): fourteen brokers, clients that go to and fro between 1 and 13, or 2 and 14, ten seconds apart.

Subscriptions come in families, as in S4 Fig. 7: the workload says which of a family covers which, and families have
nothing in common. S4 draws ten subscriptions and gives them to 400 clients. How many of them one root hides, it does
not say; with ten to a family it is nine, and with one family of all clients 399. Both are measured: all depends on it.
Odd subscriptions begin at broker 1, even ones at broker 2, as in S4.

Brokers take a time for each message, one after the other (`service`). S4 has no figure for it, and without one floods
cost nothing. Ours is bounded by what S4 reports: 1,000 clients, a hundred movements a second, did not slow the
transaction down. A broker in the middle handles eight messages of each of our movements, hence 1 ms.

PADRES, in which S4 measured, goes through a broker's subscriptions for each one that comes or goes while covering is
on, once for each neighbour; the transaction was measured without covering, where there is nothing to compare. S4 has no
figure for that either. `scan_us` is what one of them takes, in microseconds: none, as with an index such as ours, or
5, which is less than the 16 that one comparison takes in our own Python. All depends on that, too.

S4 says nothing of publishers, nor of latencies in its cluster: nobody publishes here, and links take 0.2 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pleach.core.messages import Node
from pleach.core.mobility.resettling import MoveProtocol
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span

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
