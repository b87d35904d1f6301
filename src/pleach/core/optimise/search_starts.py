"""The start trees of a search (those of other methods, then random ones), and the search from one of them.

A search from one start is a pure function of its number, so that it may run on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView, gains_on
from pleach.core.optimise.heuristics import LinkExchangeChoice
from pleach.core.optimise.ledger import Stretch
from pleach.core.optimise.reference import maximum_interest_tree, minimum_spanning_tree
from pleach.core.optimise.search import Draws, Problem, SearchResult, draws, found_from, random_tree
from pleach.core.optimise.settling import worthwhile
from pleach.core.overlay.plans.topology import Topology, link

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
    """Run the search from one start."""
    stream = draws(f"plan/{task.seed}/{number}")
    first = start_tree(number, task.current, task.problem, stream)
    return SearchEnd(number, found_from(first, task.problem, stream))
