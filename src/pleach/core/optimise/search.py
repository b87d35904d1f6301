"""Look for a cheap tree where all traffic is known: exchanges of links, as long as one saves something.

A tree is ranked by its *excess* first, the neighbours above what brokers may have, then by its cost. Where a broker has
too many neighbours, there always is an exchange that takes one from it (a leaf can have another one), so that a search
ends within the limit. From there on every exchange lowers the cost: an end comes.

The end may be a valley that is not the lowest. So a search begins at many trees, and each end is *kicked*: some links
are exchanged at random, and the search goes on from there. Nothing here draws: who calls gives the draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from pleach.core.optimise.cost import Costs, Flow, tree_cost
from pleach.core.optimise.draws import Draws
from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView
from pleach.core.optimise.replacement import Demand, best_replacement
from pleach.core.overlay.plans.topology import Topology

T = TypeVar("T")

DEGREE_MIN = 2  # with fewer neighbours there is no tree of three brokers
KICKS = 16
EXCHANGES_PER_KICK = 3
RELATIVE_GAIN_MIN = 1e-9  # of the cost: less is the rounding of sums
LOOKS_MAX = 1_000_000  # at what may stand in for a link, in one descent


class Rank(NamedTuple):
    """Of two trees the one with the smaller rank is better."""

    excess: int
    cost: float


class SearchResult(NamedTuple):
    rank: Rank
    tree: Topology


class Problem(NamedTuple):
    """`degree_max`: neighbours that a broker may have; the cost model charges nothing for them."""

    flows: tuple[Flow, ...]
    costs: Costs
    degree_max: int

    def rank(self, tree: Topology) -> Rank:
        excess = sum(max(0, len(others) - self.degree_max) for others in tree.around.values())
        return Rank(excess, tree_cost(self.flows, tree, self.costs))


def found_from(start: Topology, problem: Problem, draws: Draws, *, kicks: int = KICKS) -> SearchResult:
    """The best tree that a search from here comes by; never one that ranks behind `start`."""
    assert problem.degree_max >= DEGREE_MIN
    search = _Search(problem, draws)
    best = min(_ranked(search.descended(start), problem), _ranked(start, problem), key=_order)
    for _ in range(kicks if len(start) > DEGREE_MIN else 0):
        again = search.descended(search.kicked(best.tree))
        best = min(best, _ranked(again, problem), key=_order)
    return best


def best_of(found: Iterable[SearchResult]) -> SearchResult:
    """Of trees of the same rank the one whose links come first: whoever found it, and when."""
    return min(found, key=_order)


def _ranked(tree: Topology, problem: Problem) -> SearchResult:
    return SearchResult(problem.rank(tree), tree)


def _order(found: SearchResult) -> tuple[Rank, tuple[tuple[str, str], ...]]:
    return found.rank, found.tree.links


class _Search:
    def __init__(self, problem: Problem, draws: Draws) -> None:
        self._problem, self._draws = problem, draws
        self._priced = IndexedFlows.of(problem.flows, problem.costs)
        self._demand = Demand.of(self._priced)
        self._names = self._priced.names

    def descended(self, start: Topology) -> Topology:
        """Link after link, in an order that is drawn; until none of them has a better one."""
        tree = IndexedTree(start, self._names)
        least = RELATIVE_GAIN_MIN * tree_cost(self._problem.flows, start, self._problem.costs)
        waiting = deque(shuffled(tree.links, self._draws))
        content = 0
        for _ in range(LOOKS_MAX):
            if content == len(waiting):
                return tree.topology(self._names)
            gone = waiting.popleft()
            better = best_replacement(tree, gone, self._demand, self._problem.degree_max, least)
            if better is None:
                waiting.append(gone)
                content += 1
                continue
            tree.replace(gone, better.new)
            waiting.append(better.new)
            content = 0
        raise AssertionError("every exchange lowers the rank, and yet there is no end")

    def kicked(self, start: Topology) -> Topology:
        """Some exchanges at random; the descent that follows takes care of the limit."""
        tree = IndexedTree(start, self._names)
        for _ in range(EXCHANGES_PER_KICK):
            root, end = shuffled(range(len(self._names)), self._draws)[:2]
            if end in tree.around[root]:
                continue
            path = TreeView(tree, root, self._priced).path(end)
            tree.exchange(LinkMove(0.0, path, _drawn(len(path) - 1, self._draws)))
        return tree.topology(self._names)


# Where to begin ------------------------------------------------------------------------------------------------------


def random_tree(brokers: Sequence[str], draws: Draws) -> Topology:
    """Any tree over these brokers, all equally probable: from a drawn Prüfer sequence."""
    names = tuple(sorted(brokers))
    if len(names) < 3:
        return Topology.of([names] if len(names) == 2 else [], names)
    code = [_drawn(len(names), draws) for _ in range(len(names) - 2)]
    degree = [1 + code.count(i) for i in range(len(names))]
    leaves = [i for i, links in enumerate(degree) if links == 1]
    heapify(leaves)
    links = []
    for parent in code:
        links.append((names[heappop(leaves)], names[parent]))
        degree[parent] -= 1
        if degree[parent] == 1:
            heappush(leaves, parent)
    links.append((names[heappop(leaves)], names[heappop(leaves)]))
    return Topology.of(links)


def shuffled(values: Iterable[T], draws: Draws) -> list[T]:
    """Fisher and Yates, by draws that are given."""
    found = list(values)
    for last in range(len(found) - 1, 0, -1):
        other = _drawn(last + 1, draws)
        found[last], found[other] = found[other], found[last]
    return found


def _drawn(below: int, draws: Draws) -> int:
    return int(next(draws) * below)
