"""An Internet-like network of two levels, after S1 Table A.1, and the latencies between brokers that lie in it.

    100 domains, linked by a Waxman graph     each domain: 100 nodes, linked by a Waxman graph of its own

A Waxman graph grows: nodes lie in a plane, more of them in some of its squares than in others (heavy-tailed), and each
new one is linked to `links_per_node` of those before it, near ones with a higher probability than far ones: exp(-d/βL),
L the plane's diagonal. Waxman's α scales all of these alike, and so has no influence where the number of links is
given. A link between two domains joins a random node of the one to a random node of the other, and is as long as the
domains are apart. So the network is connected: whatever grows is linked to what was there.

S1 says nothing of units, but that no link between brokers has more than 100 ms: the two brokers that are furthest apart
have that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import dist, exp, sqrt
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pleach.core.overlay.plans.topology import Link, link

OVERLAYS_REMEMBERED = 8
LATENCY_MAX_SECONDS = 0.1

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Waxman:
    """The parameters of S1 Table A.1, by default; both levels are alike."""

    domains: int = 100
    nodes_per_domain: int = 100
    side: float = 1000.0  # HS: of the plane
    square: float = 100.0  # LS: of the squares it is divided into
    beta: float = 0.2
    links_per_node: int = 2  # m

    @property
    def nodes(self) -> int:
        return self.domains * self.nodes_per_domain


TABLE_A1 = Waxman()


class Edge(NamedTuple):
    a: int
    b: int
    length: float


@dataclass(frozen=True)
class WaxmanNetwork:
    """Nodes 0 … n-1; those of domain i follow those of domain i-1."""

    nodes: int
    domain_size: int
    edges: tuple[Edge, ...]

    @property
    def crossing(self) -> list[Edge]:
        """The links between domains."""
        return [edge for edge in self.edges if edge.a // self.domain_size != edge.b // self.domain_size]


def network(seed: int, parameters: Waxman = TABLE_A1) -> WaxmanNetwork:
    stream = Random(f"waxman/{seed}")
    size = parameters.nodes_per_domain
    edges: list[Edge] = []
    for domain in range(parameters.domains):
        first = domain * size
        edges += [Edge(first + a, first + b, length) for a, b, length in _grown(stream, size, parameters)]
    for a, b, length in _grown(stream, parameters.domains, parameters):
        gate, other = a * size + stream.randrange(size), b * size + stream.randrange(size)
        edges.append(Edge(gate, other, length))
    return WaxmanNetwork(parameters.nodes, size, tuple(edges))


def _grown(stream: Random, count: int, parameters: Waxman) -> list[Edge]:
    """A Waxman graph of `count` nodes."""
    points = _placed(stream, count, parameters)
    reach = parameters.beta * parameters.side * sqrt(2)
    edges = []
    for node in range(1, count):
        lengths = [dist(points[node], other) for other in points[:node]]
        weights = [exp(-length / reach) for length in lengths]
        chosen: dict[int, None] = {}
        while len(chosen) < min(node, parameters.links_per_node):
            chosen[stream.choices(range(node), weights)[0]] = None
        edges += [Edge(node, other, lengths[other]) for other in chosen]
    return edges


def _placed(stream: Random, count: int, parameters: Waxman) -> list[Point]:
    """How many nodes a square has is heavy-tailed (Pareto, with exponent 1); within it they lie anywhere."""
    per_side = max(1, round(parameters.side / parameters.square))
    weights = [min(count, 1.0 / (1.0 - stream.random())) for _ in range(per_side**2)]
    points: list[Point] = []
    for square in stream.choices(range(per_side**2), weights, k=count):
        column, row = divmod(square, per_side)
        width = parameters.side / per_side
        points.append(((column + stream.random()) * width, (row + stream.random()) * width))
    return points


# Distances ------------------------------------------------------------------------------------------------------


def distances(found: WaxmanNetwork, chosen: Sequence[int]) -> NDArray[np.float64]:
    """The lengths of the shortest paths between every two of the chosen nodes.

    A path enters and leaves a domain at one of its few gates. So it is enough to know all distances within each domain,
    and then all between the gates and the chosen nodes.
    """
    within = _within_domains(found)
    gates = [node for edge in found.crossing for node in (edge.a, edge.b)]
    stops = np.array(sorted({*gates, *chosen}))
    domain, place = np.divmod(stops, found.domain_size)
    far = within[domain[:, None], place[:, None], place[None, :]]
    far[domain[:, None] != domain[None, :]] = np.inf
    index = {int(node): i for i, node in enumerate(stops)}
    for a, b, length in found.crossing:
        i, j = index[a], index[b]
        far[i, j] = far[j, i] = min(far[i, j], length)
    _close(far)
    picked = [index[node] for node in chosen]
    return far[np.ix_(picked, picked)]


def _within_domains(found: WaxmanNetwork) -> NDArray[np.float64]:
    """Domain by domain, the distances that do not lead through others."""
    size = found.domain_size
    far = np.full((found.nodes // size, size, size), np.inf)
    far[:, range(size), range(size)] = 0.0
    for a, b, length in found.edges:
        (here, i), (there, j) = divmod(a, size), divmod(b, size)
        if here == there:
            far[here, i, j] = far[here, j, i] = min(far[here, i, j], length)
    for domain in far:
        _close(domain)
    return far


def _close(far: NDArray[np.float64]) -> None:
    """From the lengths of links to those of shortest paths (Floyd, Warshall)."""
    through = np.empty_like(far)
    for k in range(len(far)):
        np.add(far[:, k, None], far[k], out=through)
        np.minimum(far, through, out=far)


# Brokers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Brokers:
    """Brokers at random places of a network; every two of them may be linked, over the shortest path."""

    names: tuple[str, ...]
    links: tuple[Link, ...]  # a random tree
    latency: dict[Link, float]  # of every two, in seconds


@lru_cache(maxsize=OVERLAYS_REMEMBERED)
def brokers_of(seed: int, count: int, parameters: Waxman = TABLE_A1) -> Brokers:
    stream = Random(f"brokers/{seed}")
    nodes = stream.sample(range(parameters.nodes), count)
    names = [f"b{i}" for i in range(count)]
    apart = distances(network(seed, parameters), nodes)
    seconds = LATENCY_MAX_SECONDS / float(apart.max())
    latency = {
        link(names[i], names[j]): seconds * float(apart[i, j]) for i in range(count) for j in range(i + 1, count)
    }
    return Brokers(tuple(names), random_tree(stream, names), latency)


def random_tree(stream: Random, names: Sequence[str]) -> tuple[Link, ...]:
    """Any of the n^(n-2) trees, all equally probable: where a random walk comes to each node first (Aldous, Broder)."""
    here = stream.choice(names)
    came_by: dict[str, Link | None] = {here: None}
    while len(came_by) < len(names):
        there = stream.choice(names)
        if there not in came_by:
            came_by[there] = link(here, there)
        here = there
    return tuple(sorted(found for found in came_by.values() if found is not None))
