"""Trees by index, and the costs of all flows on them at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from pleach.lab.improve.setting import Bools, Costs, Floats, Ints
from pleach.lab.improve.traffic import Flows

Path: TypeAlias = tuple[int, ...]


class Neighbours(NamedTuple):
    """The neighbours of all brokers in one array, sorted per broker."""

    everyone: Ints
    first: Ints  # index of a broker's first neighbour
    degree: Ints  # number of neighbours


class Rooted(NamedTuple):
    """Rooted at broker 0, in depth-first order."""

    parent: Ints
    place: Ints  # of each broker in the order
    behind: Ints  # the place after its subtree


class Tree:
    """Neighbours of each broker; links are exchanged in place. Derived data is cached until then."""

    def __init__(self, count: int, links: Iterable[tuple[int, int]]) -> None:
        self.around: list[set[int]] = [set() for _ in range(count)]
        for a, b in links:
            self.around[a].add(b)
            self.around[b].add(a)
        self._neighbours: Neighbours | None = None
        self._rooted: Rooted | None = None

    @property
    def links(self) -> list[tuple[int, int]]:
        return [(a, b) for a, others in enumerate(self.around) for b in sorted(others) if a < b]

    def has(self, path: Path) -> bool:
        return all(b in self.around[a] for a, b in pairwise(path))

    def exchange(self, path: Path, removed: int) -> None:
        """Replace the link behind place `removed` of the path by one between its ends."""
        a, b = path[removed], path[removed + 1]
        self.around[a].remove(b)
        self.around[b].remove(a)
        self.around[path[0]].add(path[-1])
        self.around[path[-1]].add(path[0])
        self._neighbours = self._rooted = None

    @property
    def neighbours(self) -> Neighbours:
        if self._neighbours is None:
            degree = np.array(degrees(self))
            everyone = np.array([there for others in self.around for there in sorted(others)])
            self._neighbours = Neighbours(everyone, degree.cumsum() - degree, degree)
        return self._neighbours

    @property
    def rooted(self) -> Rooted:
        if self._rooted is None:
            self._rooted = _rooted(self.around)
        return self._rooted


def _rooted(around: Sequence[Collection[int]]) -> Rooted:
    parent, order, waiting = [-1] * len(around), [], [0]
    while waiting:
        here = waiting.pop()
        order.append(here)
        for there in around[here]:
            if there != parent[here]:
                parent[there] = here
                waiting.append(there)
    place, size = [0] * len(around), [1] * len(around)
    for number, broker in enumerate(order):
        place[broker] = number
    for broker in reversed(order[1:]):
        size[parent[broker]] += size[broker]
    return Rooted(np.array(parent), np.array(place), np.array(place) + np.array(size))


def below(tree: Rooted, flows: Flows) -> Ints:
    """[broker, flow]: members of the flow in the broker's subtree."""
    stays = len(flows.members)
    before = np.zeros((len(tree.parent) + 1, stays), dtype=np.int64)  # [place, flow]: members before it
    before[tree.place[flows.members] + 1, np.arange(stays)[:, None]] = 1
    before.cumsum(axis=0, out=before)
    found: Ints = before[tree.behind] - before[tree.place]
    return found


class Used(NamedTuple):
    """[broker, flow]: whether a flow needs the broker, and the link to its parent, which the root lacks."""

    brokers: Bools
    links: Bools


def used(tree: Rooted, flows: Flows) -> Used:
    """A flow needs the links with members on both sides, and their ends."""
    beneath, size = below(tree, flows), flows.members.shape[1]
    crossing: Bools = (beneath > 0) & (beneath < size)
    reached = crossing.copy()
    top = np.argmax(np.where(beneath == size, tree.place[:, None], -1), axis=0)  # lowest broker above all members
    reached[top, np.arange(len(top))] = size > 1
    return Used(reached, crossing)


def _upwards(root: Rooted, costs: Costs) -> Floats:
    upwards: Floats = costs.communication[np.arange(len(root.parent)), root.parent]
    return upwards


def flow_costs(tree: Tree, flows: Flows, costs: Costs) -> Floats:
    """(5.2) for one event of each flow."""
    root = tree.rooted
    needed = used(root, flows)
    total: Floats = costs.processing @ needed.brokers + _upwards(root, costs) @ needed.links
    return total


def costs_at(tree: Tree, flows: Flows, costs: Costs) -> Floats:
    """The cost of events at each broker: their processing, and half of each of its links."""
    root = tree.rooted
    needed = used(root, flows)
    halves = _upwards(root, costs) * (needed.links @ flows.events) / 2.0
    total: Floats = costs.processing * (needed.brokers @ flows.events) + halves
    np.add.at(total, root.parent[1:], halves[1:])
    return total


def broadcast_prices(tree: Tree, origin: int, costs: Costs, hops_max: int) -> list[float]:
    """Of broadcasts of 0, 1, 2, … hops from one broker."""
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


def spanning_tree(weight: Floats, among: Sequence[int]) -> list[tuple[int, int]]:
    """The minimum spanning tree of some brokers (Prim)."""
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


# The broadcasts of a step ---------------------------------------------------------------------------------------------


class Wave(NamedTuple):
    """The brokers that broadcasts reach with a number of hops; earlier broadcasts first."""

    broadcast: Ints  # its number, of each path
    paths: Ints  # one row each, from the reached broker back to the origin


def waves(tree: Tree, looks: Mapping[int, int]) -> list[Wave]:
    """`looks`: hops of each origin's broadcast, at least 1."""
    wave = Wave(np.arange(len(looks)), np.array(list(looks))[:, None])
    hops = np.array(list(looks.values()))
    found = [_further(wave, tree.neighbours)]
    while len(found[-1].broadcast):
        goes_on = hops[found[-1].broadcast] > len(found)
        found.append(_further(Wave(*(each[goes_on] for each in found[-1])), tree.neighbours))
    return found[:-1]


def _further(wave: Wave, around: Neighbours) -> Wave:
    """One hop further, except back to the sender."""
    here = wave.paths[:, 0]
    many = around.degree[here]
    path = np.repeat(np.arange(len(here)), many)
    place_of_first = np.repeat(many.cumsum() - many, many)
    there = around.everyone[around.first[here][path] + np.arange(len(path)) - place_of_first]
    if wave.paths.shape[1] > 1:
        is_new = there != wave.paths[path, 1]
        there, path = there[is_new], path[is_new]
    return Wave(wave.broadcast[path], np.concatenate([there[:, None], wave.paths[path]], axis=1))


def broadcast_cost(origins: Sequence[int], reached: Sequence[Wave], costs: Costs) -> float:
    """Summed in the order of broadcasts, nearer brokers first."""
    order = np.argsort(np.concatenate([wave.broadcast for wave in reached]), kind="stable")
    there, here = np.concatenate([wave.paths[:, :2] for wave in reached])[order].T
    links = costs.communication[there, here].sum()
    return float(costs.processing[list(origins)].sum() + costs.processing[there].sum() + links)
