"""Search for a cheap tree with global knowledge: a local search by link exchanges.

A tree is ranked by its *excess* first, the neighbours above the limit, then by its cost. Where a broker has too many
neighbours, there is always an exchange that takes one from it (a leaf can take it over), so a search ends within the
limit. From there on every exchange lowers the cost, so it terminates.

The result may be a local minimum. So a search begins at many trees, and each result is *kicked*: some links are
exchanged at random, and the search continues from there. Random numbers are passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from pleach.core.optimise.cost import Costs, Flow, tree_cost
from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView, gains_on
from pleach.core.optimise.heuristics import LinkExchangeChoice
from pleach.core.optimise.ledger import Stretch
from pleach.core.optimise.reference import maximum_interest_tree, minimum_spanning_tree
from pleach.core.optimise.replacement import Demand, best_replacement
from pleach.core.optimise.settling import worthwhile
from pleach.core.overlay.plans.topology import Topology, link

T = TypeVar("T")

DEGREE_MIN = 2  # the least with which trees of three brokers exist
KICKS = 16
EXCHANGES_PER_KICK = 3
RELATIVE_GAIN_MIN = 1e-9  # of the cost; less is rounding
LOOKS_MAX = 1_000_000  # replacements examined in one descent


class Rank(NamedTuple):
    """The smaller rank is better."""

    excess: int
    cost: float


class SearchResult(NamedTuple):
    rank: Rank
    tree: Topology


class Problem(NamedTuple):
    """`degree_max`: neighbours that a broker may have, a limit outside the cost model."""

    flows: tuple[Flow, ...]
    costs: Costs
    degree_max: int

    def rank(self, tree: Topology) -> Rank:
        excess = sum(max(0, len(others) - self.degree_max) for others in tree.around.values())
        return Rank(excess, tree_cost(self.flows, tree, self.costs))


def found_from(start: Topology, problem: Problem, draws: Draws, *, kicks: int = KICKS) -> SearchResult:
    """The best tree of a search from `start`; never worse than `start`."""
    assert problem.degree_max >= DEGREE_MIN
    search = _Search(problem, draws)
    best = min(_ranked(search.descended(start), problem), _ranked(start, problem), key=_order)
    for _ in range(kicks if len(start) > DEGREE_MIN else 0):
        again = search.descended(search.kicked(best.tree))
        best = min(best, _ranked(again, problem), key=_order)
    return best


def best_of(found: Iterable[SearchResult]) -> SearchResult:
    """Of trees of equal rank the first by links, independent of the order of searches."""
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
        """Replace link after link, in random order, until none has a better replacement."""
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
        raise AssertionError("every exchange lowers the rank, yet the search does not end")

    def kicked(self, start: Topology) -> Topology:
        """Random exchanges; the following descent restores the limit."""
        tree = IndexedTree(start, self._names)
        for _ in range(EXCHANGES_PER_KICK):
            root, end = shuffled(range(len(self._names)), self._draws)[:2]
            if end in tree.around[root]:
                continue
            path = TreeView(tree, root, self._priced).path(end)
            tree.exchange(LinkMove(0.0, path, _drawn(len(path) - 1, self._draws)))
        return tree.topology(self._names)


# Random trees --------------------------------------------------------------------------------------------------------


def random_tree(brokers: Sequence[str], draws: Draws) -> Topology:
    """A uniformly random tree over these brokers, from a random Prüfer sequence."""
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
    """Fisher–Yates shuffle."""
    found = list(values)
    for last in range(len(found) - 1, 0, -1):
        other = _drawn(last + 1, draws)
        found[last], found[other] = found[other], found[last]
    return found


def _drawn(below: int, draws: Draws) -> int:
    return int(next(draws) * below)


# Random numbers -------------------------------------------------------------------------------------------------------

Draws: TypeAlias = Iterator[float]  # each in [0, 1)

_BITS = 53  # of a float's mantissa


def draws(stream: str) -> Draws:
    """Random numbers that follow from the name of their stream: the same on every machine."""
    key = blake2b(stream.encode(), digest_size=32).digest()
    for number in count():
        digest = blake2b(number.to_bytes(8, "little"), key=key, digest_size=8).digest()
        yield (int.from_bytes(digest, "little") >> (64 - _BITS)) / (1 << _BITS)


# The start trees: those of other methods, then random ones ------------------------------------------------------------

RADIUS = 3  # hops of a broadcast (S1 Table 5.2)
RANDOM = "random"

Start: TypeAlias = Callable[[Topology, Problem], Topology]


def settled(tree: Topology, problem: Problem) -> Topology:
    """The tree where settling (`settling.py`) stops if brokers know their neighbourhood. Degrees are not limited."""
    priced = IndexedFlows.of(problem.flows, problem.costs)
    indexed = IndexedTree(tree, priced.names)
    root, content = 0, 0
    while content < len(priced.names):
        move = next(_worthwhile(indexed, root, priced, problem), None)
        if move is None:
            root, content = (root + 1) % len(priced.names), content + 1
        else:
            indexed.exchange(move)
            content = 0
    return indexed.topology(priced.names)


def _worthwhile(indexed: IndexedTree, root: int, priced: IndexedFlows, problem: Problem) -> Iterator[LinkMove]:
    view, names = TreeView(indexed, root, priced), priced.names
    for end in range(root):  # the others request the same links
        path = view.path(end)
        if not 2 < len(path) <= RADIUS + 1:
            continue
        kinds = view.kinds(path)
        if not kinds or max(gains_on(path, kinds, priced)) <= 0.0:
            continue  # a quick test before the full one
        named = [names[broker] for broker in path]
        found = [Stretch(frozenset(i for i in range(len(path)) if kind >> i & 1), events) for kind, events in kinds]
        exchange = worthwhile(named, found, problem.costs)
        if exchange is not None:
            yield LinkMove(exchange.gain, path, _place(named, exchange))


def _place(path: list[str], exchange: LinkExchangeChoice) -> int:
    return next(i for i in range(len(path) - 1) if link(path[i], path[i + 1]) == exchange.remove)


STARTS: MappingProxyType[str, Start] = MappingProxyType(
    {
        "current": lambda tree, _: tree,
        "settling": settled,
        "mst": lambda _, problem: minimum_spanning_tree(problem.costs),
        "mit": lambda _, problem: maximum_interest_tree(problem.flows, problem.costs.brokers),
    }
)


def name_of_start(number: int) -> str:
    names = tuple(STARTS)
    return names[number] if number < len(names) else RANDOM


def start_tree(number: int, current: Topology, problem: Problem, stream: Draws) -> Topology:
    name = name_of_start(number)
    return random_tree(problem.costs.brokers, stream) if name == RANDOM else STARTS[name](current, problem)


class SearchTask(NamedTuple):
    """The input that all starts share; sent to executors."""

    problem: Problem
    current: Topology
    seed: int


class SearchEnd(NamedTuple):
    """The result of a search from one start."""

    number: int
    found: SearchResult

    @property
    def name(self) -> str:
        return name_of_start(self.number)


def searched(task: SearchTask, number: int) -> SearchEnd:
    """The search from one start: a pure function of its number, so that it may run on any machine."""
    stream = draws(f"plan/{task.seed}/{number}")
    first = start_tree(number, task.current, task.problem, stream)
    return SearchEnd(number, found_from(first, task.problem, stream))
