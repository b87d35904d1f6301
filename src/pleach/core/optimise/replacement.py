"""The best replacement of a link, exactly and for all flows at once.

Without link x–y the tree has two parts. A flow that crossed the link still connects its brokers within each part. With
a new link u–v it goes from them to u, over u–v, and from v to its brokers in the other part:

        ●──●──u ┄┄┄ v──●            cost(u, v) = reach(u) + W·c(u,v) + reach(v)
        ╰─ x ┄┄┄┄┄ y ─╯             W: events of all flows that cross

*reach(u)*: the cost of the links and brokers between a flow's brokers in this part and u, summed over all flows. It is
computed along links: over a–b it grows by c + p_b for a flow without brokers beyond b, and falls by c + p_a for one
with all its brokers beyond b. So one walk through each part covers all pairs (u, v). Sets of flows are bit masks.
`gains.py` computes the same savings by cycles; tests compare the two.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from operator import getitem
from typing import NamedTuple, TypeAlias

from pleach.core.optimise.gains import IndexedFlows, IndexedTree, Link

Mask: TypeAlias = int  # a set of flows: bit i is flow i
BITS = 8  # of a mask per table look-up


class Weights:
    """The events of a set of flows, by tables of eight flows each."""

    def __init__(self, events: Sequence[float]) -> None:
        self._tables = [_sums(events[first : first + BITS]) for first in range(0, len(events), BITS)]

    def of(self, flows: Mask) -> float:
        return sum(map(getitem, self._tables, flows.to_bytes(len(self._tables), "little"))) if flows else 0.0


def _sums(events: Sequence[float]) -> array[float]:
    """The sums of all subsets."""
    sums = array("d", [0.0])
    for each in events:
        sums.extend([before + each for before in sums])
    return sums


@dataclass(frozen=True)
class Demand:
    """The flows of each broker, and their costs; the same for all trees."""

    priced: IndexedFlows
    own: tuple[Mask, ...]  # of each broker
    weights: Weights

    @classmethod
    def of(cls, priced: IndexedFlows) -> Demand:
        own = [0] * len(priced.names)
        for number, members in enumerate(priced.members):
            for member in members:
                own[member] |= 1 << number
        return cls(priced, tuple(own), Weights(priced.events))


class Replacement(NamedTuple):
    """`relief`: by how many fewer neighbours brokers exceed the limit."""

    relief: int
    gain: float
    new: Link


def best_replacement(
    tree: IndexedTree, gone: Link, demand: Demand, degree_max: int, least: float
) -> Replacement | None:
    """The best link in place of another; None where none is better by `least`.

    Relief of neighbours above the limit takes precedence over cost.
    """
    cut = _Cut.of(tree, gone, demand)
    degrees = [len(others) for others in tree.around]
    relief = sum(degrees[end] > degree_max for end in gone)
    for end in gone:
        degrees[end] -= 1
    here, there = ([_Half.of(part, degrees, degree_max, full=full) for full in (False, True)] for part in cut.parts)
    for more in range(min(relief, 2) + 1):  # ends of the new link that are at their limit already
        pairs = [(here[i], there[more - i]) for i in range(2) if 0 <= more - i < 2]
        found = _cheapest(pairs, cut.crossing, demand.priced.communication)
        if found.new is not None and (relief > more or cut.before - found.cost > least):
            return Replacement(relief - more, cut.before - found.cost, found.new)
    return None


class _Part(NamedTuple):
    """One part of the tree: brokers, parents first, and the reach of each relative to the end of the removed link."""

    brokers: list[int]
    reach: list[float]


class _Cut(NamedTuple):
    crossing: float  # events
    before: float  # cost of the link itself
    parts: tuple[_Part, _Part]

    @classmethod
    def of(cls, tree: IndexedTree, gone: Link, demand: Demand) -> _Cut:
        a, b = gone
        walks = [_Walk(tree, a, b, demand), _Walk(tree, b, a, demand)]
        flows = walks[0].beyond[a] & walks[1].beyond[b]
        crossing = demand.weights.of(flows)
        one, other = (walk.part(flows, demand) for walk in walks)
        return cls(crossing, crossing * demand.priced.communication[a][b], (one, other))


class _Walk:
    """A walk through one part, from the end of the removed link."""

    def __init__(self, tree: IndexedTree, end: int, without: int, demand: Demand) -> None:
        self._above = [-1] * len(tree.around)
        self._above[end] = without
        self._order = [end]
        for here in self._order:
            for there in tree.around[here]:
                if there != self._above[here]:
                    self._above[there] = here
                    self._order.append(there)
        self.beyond = list(demand.own)  # flows of the broker and of those behind it
        self._twice = [0] * len(tree.around)  # flows with several of: the broker, and parts behind its links
        for here in reversed(self._order[1:]):
            up = self._above[here]
            self._twice[up] |= self.beyond[up] & self.beyond[here]
            self.beyond[up] |= self.beyond[here]

    def part(self, flows: Mask, demand: Demand) -> _Part:
        processing, communication, weigh = demand.priced.processing, demand.priced.communication, demand.weights.of
        whole = [0] * len(self._above)  # flows with all their brokers of this part at or behind the broker
        reach = [0.0] * len(self._above)
        whole[self._order[0]] = flows
        for here in self._order[1:]:
            up = self._above[here]
            behind = self.beyond[here]
            whole[here] = whole[up] & behind & ~self._twice[up]
            link = communication[up][here]
            away, towards = weigh(flows & ~behind), weigh(whole[here])
            reach[here] = reach[up] + away * (link + processing[here]) - towards * (link + processing[up])
        return _Part(self._order, [reach[here] for here in self._order])


class _Half(NamedTuple):
    """The brokers of a part that are at their limit of neighbours, or the others; least reach first."""

    places: list[tuple[float, int]]

    @classmethod
    def of(cls, part: _Part, degrees: Sequence[int], degree_max: int, *, full: bool) -> _Half:
        reached = zip(part.reach, part.brokers, strict=True)
        return cls(sorted(place for place in reached if (degrees[place[1]] >= degree_max) is full))


class _Cheapest(NamedTuple):
    cost: float
    new: Link | None


def _cheapest(
    pairs: Iterable[tuple[_Half, _Half]], crossing: float, communication: Sequence[Sequence[float]]
) -> _Cheapest:
    """Branch and bound: link costs are not negative."""
    best, new = inf, None
    for here, there in pairs:
        for mine, u in here.places:
            row = communication[u]
            for theirs, v in there.places:
                if mine + theirs >= best:
                    break
                cost = mine + theirs + crossing * row[v]
                if cost < best:
                    best, new = cost, (u, v)
    return _Cheapest(best, new)
