"""Trees by index, and what flows cost on them: all flows at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pleach.lab.improve.setting import Costs, Floats, Ints
from pleach.lab.improve.traffic import Flows

Path: TypeAlias = tuple[int, ...]
Bools: TypeAlias = NDArray[np.bool_]


class Tree:
    """Neighbours of each broker; links are exchanged in place."""

    def __init__(self, count: int, links: Iterable[tuple[int, int]]) -> None:
        self.around: list[set[int]] = [set() for _ in range(count)]
        for a, b in links:
            self.around[a].add(b)
            self.around[b].add(a)

    @property
    def links(self) -> list[tuple[int, int]]:
        return [(a, b) for a, others in enumerate(self.around) for b in sorted(others) if a < b]

    def has(self, path: Path) -> bool:
        return all(b in self.around[a] for a, b in pairwise(path))

    def exchange(self, path: Path, removed: int) -> None:
        """The link behind place `removed` of the path for one between its ends."""
        a, b = path[removed], path[removed + 1]
        self.around[a].remove(b)
        self.around[b].remove(a)
        self.around[path[0]].add(path[-1])
        self.around[path[-1]].add(path[0])

    def wave(self, origin: int, radius: int) -> list[list[Path]]:
        """The paths of a broadcast, from whom it reaches back to its origin: those of one hop, of two, …"""
        waves: list[list[Path]] = [[(there, origin) for there in sorted(self.around[origin])]]
        while len(waves) < radius and waves[-1]:
            waves.append(
                [(there, *path) for path in waves[-1] for there in sorted(self.around[path[0]]) if there != path[1]]
            )
        return waves


class Rooted(NamedTuple):
    """From broker 0: everyone's parent, and an order in which parents come first."""

    parent: Ints
    order: tuple[int, ...]


def rooted(tree: Tree) -> Rooted:
    parent = [-1] * len(tree.around)
    order = [0]
    for here in order:
        for there in tree.around[here]:
            if there != parent[here]:
                parent[there] = here
                order.append(there)
    return Rooted(np.array(parent), tuple(order))


def below(tree: Rooted, flows: Flows) -> Ints:
    """[broker, flow]: how many of the flow's members are at the broker or beneath it."""
    stays, size = flows.members.shape
    found = np.zeros((len(tree.parent), stays), dtype=np.int64)
    np.add.at(found, (flows.members, np.repeat(np.arange(stays), size).reshape(stays, size)), 1)
    for broker in reversed(tree.order[1:]):
        found[tree.parent[broker]] += found[broker]
    return found


class Used(NamedTuple):
    """[broker, flow]: whether a flow needs the broker, and the link to its parent. The root has no such link."""

    brokers: Bools
    links: Bools


def used(root: Rooted, flows: Flows) -> Used:
    """A flow needs the links with members on both sides, and their ends."""
    beneath = below(root, flows)
    crossing: Bools = (beneath > 0) & (beneath < flows.members.shape[1])
    reached = crossing.copy()
    for broker in root.order[1:]:
        reached[root.parent[broker]] |= crossing[broker]
    return Used(reached, crossing)


def _upwards(root: Rooted, costs: Costs) -> Floats:
    upwards: Floats = costs.communication[np.arange(len(root.parent)), root.parent]
    return upwards


def flow_costs(tree: Tree, flows: Flows, costs: Costs) -> Floats:
    """(5.2) for one event of each flow."""
    root = rooted(tree)
    needed = used(root, flows)
    total: Floats = costs.processing @ needed.brokers + _upwards(root, costs) @ needed.links
    return total


def costs_at(tree: Tree, flows: Flows, costs: Costs) -> Floats:
    """What events cost at each broker: their processing, and half of each of its links."""
    root = rooted(tree)
    needed = used(root, flows)
    halves = _upwards(root, costs) * (needed.links @ flows.events) / 2.0
    total: Floats = costs.processing * (needed.brokers @ flows.events) + halves
    np.add.at(total, root.parent[1:], halves[1:])
    return total


def look_prices(tree: Tree, origin: int, costs: Costs, hops_max: int) -> list[float]:
    """`optimise.looking.prices_of`, of one broker."""
    prices = [float(costs.processing[origin])]
    reached = [(origin, -1)]
    for _ in range(hops_max):
        reached = [(there, here) for here, before in reached for there in tree.around[here] if there != before]
        if not reached:
            break
        there, here = np.array(reached).T
        prices.append(prices[-1] + float(costs.processing[there].sum() + costs.communication[here, there].sum()))
    return prices


def degrees(tree: Tree) -> list[int]:
    return [len(others) for others in tree.around]


def grouped(paths: Sequence[Path]) -> list[tuple[Ints, Ints]]:
    """Paths of the same length together, each with its number."""
    lengths = np.array([len(path) for path in paths], dtype=np.int64)
    found = []
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        found.append((numbers, np.array([paths[number] for number in numbers.tolist()])))
    return found


def spanning_tree(weight: Floats, among: Sequence[int]) -> list[tuple[int, int]]:
    """The lightest tree over some brokers (Prim)."""
    members = np.array(among)
    near = weight[members[0], members].copy()
    via = np.zeros(len(members), dtype=np.int64)
    near[0] = np.inf
    links = []
    done = np.zeros(len(members), dtype=bool)
    done[0] = True
    for _ in range(len(members) - 1):
        new = int(np.argmin(np.where(done, np.inf, near)))
        done[new] = True
        links.append((int(members[via[new]]), int(members[new])))
        closer = weight[members[new], members] < near
        near, via = np.where(closer, weight[members[new], members], near), np.where(closer, new, via)
    return links
