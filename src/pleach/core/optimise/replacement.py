"""What may stand in for a link, exactly and for all flows at once: the ground of the search.

Without a link x–y the tree is in two parts. A flow that crossed the link has its brokers of each part still connected.
A new link u–v serves it if it gets from them to u, over u–v, and from v to its brokers on the other side:

        ●──●──u ┄┄┄ v──●            cost(u, v) = reach(u) + W·c(u,v) + reach(v)
        ╰─ x ┄┄┄┄┄ y ─╯             W: events of all flows that cross

*reach*: links and brokers between what a flow has in this part and the place, summed over flows, with their events. It
follows from place to place: over a link a–b it grows by c + p_b for a flow that has nothing beyond b, and falls by
c + p_a for one that has everything beyond b. So one walk through each part serves all pairs (u, v). Flows are bits of
a number, and sets of flows are numbers; `gains.py` comes to the same savings by cycles, and tests compare the two.
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
BITS = 8  # of a mask that are weighed at a time


class Weights:
    """Events of any set of flows: a table for each eight of them."""

    def __init__(self, events: Sequence[float]) -> None:
        self._tables = [_sums(events[first : first + BITS]) for first in range(0, len(events), BITS)]

    def of(self, flows: Mask) -> float:
        return sum(map(getitem, self._tables, flows.to_bytes(len(self._tables), "little"))) if flows else 0.0


def _sums(events: Sequence[float]) -> array[float]:
    """Of every subset."""
    sums = array("d", [0.0])
    for each in events:
        sums.extend([before + each for before in sums])
    return sums


@dataclass(frozen=True)
class Demand:
    """Who takes part in which flows, and what that costs; the same for all trees."""

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
    """`relief`: neighbours above the limit that there are fewer then."""

    relief: int
    gain: float
    new: Link


def best_replacement(
    growth: IndexedTree, gone: Link, demand: Demand, degree_max: int, least: float
) -> Replacement | None:
    """The link that is best put in the place of another; None where nothing is better by `least`.

    Neighbours above the limit come first: a place that has none too many then, whatever it costs.
    """
    cut = _Cut.of(growth, gone, demand)
    degrees = [len(others) for others in growth.around]
    relief = sum(degrees[end] > degree_max for end in gone)
    for end in gone:
        degrees[end] -= 1
    here, there = ([_Half.of(part, degrees, degree_max, full=full) for full in (False, True)] for part in cut.parts)
    for more in range(min(relief, 2) + 1):  # of both ends of the new link, so many have their limit already
        pairs = [(here[i], there[more - i]) for i in range(2) if 0 <= more - i < 2]
        found = _cheapest(pairs, cut.crossing, demand.priced.communication)
        if found.new is not None and (relief > more or cut.before - found.cost > least):
            return Replacement(relief - more, cut.before - found.cost, found.new)
    return None


class _Part(NamedTuple):
    """What a removed link leaves on one side of it: brokers, parents first, and the reach of each beside its end's."""

    brokers: list[int]
    reach: list[float]


class _Cut(NamedTuple):
    crossing: float  # events
    before: float  # what the link itself has cost them
    parts: tuple[_Part, _Part]

    @classmethod
    def of(cls, growth: IndexedTree, gone: Link, demand: Demand) -> _Cut:
        a, b = gone
        walks = [_Walk(growth, a, b, demand), _Walk(growth, b, a, demand)]
        flows = walks[0].beyond[a] & walks[1].beyond[b]
        crossing = demand.weights.of(flows)
        one, other = (walk.part(flows, demand) for walk in walks)
        return cls(crossing, crossing * demand.priced.communication[a][b], (one, other))


class _Walk:
    """From one end of the removed link through its part, away from the link."""

    def __init__(self, growth: IndexedTree, end: int, without: int, demand: Demand) -> None:
        self._above = [-1] * len(growth.around)
        self._above[end] = without
        self._order = [end]
        for here in self._order:
            for there in growth.around[here]:
                if there != self._above[here]:
                    self._above[there] = here
                    self._order.append(there)
        self.beyond = list(demand.own)  # flows that a broker has, or somebody behind it
        self._twice = [0] * len(growth.around)  # flows that have several of: the broker, and what is behind its links
        for here in reversed(self._order[1:]):
            up = self._above[here]
            self._twice[up] |= self.beyond[up] & self.beyond[here]
            self.beyond[up] |= self.beyond[here]

    def part(self, flows: Mask, demand: Demand) -> _Part:
        processing, communication, weigh = demand.priced.processing, demand.priced.communication, demand.weights.of
        whole = [0] * len(self._above)  # flows that have all they have in this part at the broker, or behind it
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
    """The brokers of a part that have as many neighbours as they may, or the others; those in reach first."""

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
    """Links cost at least nothing: whoever is out of reach is not looked at."""
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
