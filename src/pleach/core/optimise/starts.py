"""The trees at which a search for a cheap one begins: those that others would choose, then random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import TypeAlias

from pleach.core.optimise.draws import Draws
from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView, gains_on
from pleach.core.optimise.heuristics import LinkExchangeChoice
from pleach.core.optimise.ledger import Stretch
from pleach.core.optimise.reference import maximum_interest_tree, minimum_spanning_tree
from pleach.core.optimise.search import Problem, random_tree
from pleach.core.optimise.settling import worthwhile
from pleach.core.overlay.plans.topology import Topology, link

RADIUS = 3  # hops that brokers look around themselves (S1 Table 5.2)
RANDOM = "random"

Start: TypeAlias = Callable[[Topology, Problem], Topology]


def settled(tree: Topology, problem: Problem) -> Topology:
    """Where brokers that settle come to rest, if each knows its neighbourhood: see `settling.py`. No limit is kept."""
    priced = IndexedFlows.of(problem.flows, problem.costs)
    growth = IndexedTree(tree, priced.names)
    root, content = 0, 0
    while content < len(priced.names):
        move = next(_worthwhile(growth, root, priced, problem), None)
        if move is None:
            root, content = (root + 1) % len(priced.names), content + 1
        else:
            growth.exchange(move)
            content = 0
    return growth.topology(priced.names)


def _worthwhile(growth: IndexedTree, root: int, priced: IndexedFlows, problem: Problem) -> Iterator[LinkMove]:
    view, names = TreeView(growth, root, priced), priced.names
    for end in range(root):  # the others ask for the same links
        path = view.path(end)
        if not 2 < len(path) <= RADIUS + 1:
            continue
        kinds = view.kinds(path)
        if not kinds or max(gains_on(path, kinds, priced)) <= 0.0:
            continue  # quicker than what follows, which tells chance from what is worth it
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


def start_tree(number: int, current: Topology, problem: Problem, draws: Draws) -> Topology:
    name = name_of_start(number)
    return random_tree(problem.costs.brokers, draws) if name == RANDOM else STARTS[name](current, problem)
