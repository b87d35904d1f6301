"""The order of exchanges from one tree to a cheaper one: the largest saving first.

For each missing link there is one exchange (S1 Theorem 2): the link is added, and a link of its cycle that the goal
does not have is removed. The order decides how soon the saving is reached, and what is saved if only some exchanges are
made: `ExchangeOrder.of` ends at the best tree within `exchanges_max`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pleach.core.optimise.gains import IndexedFlows, IndexedTree, LinkMove, TreeView
from pleach.core.optimise.search import Problem, Rank
from pleach.core.overlay.choice import Circumstances, planned_exchange
from pleach.core.overlay.plans import Plan
from pleach.core.overlay.plans.cycle import links_on
from pleach.core.overlay.plans.steps import Step
from pleach.core.overlay.plans.topology import Link, Topology, link


class OrderedExchange(NamedTuple):
    """One exchange. Later exchanges make up for a negative saving."""

    remove: Link
    add: Link
    saving: float
    tree: Topology  # after it
    rank: Rank


@dataclass(frozen=True)
class ExchangeOrder:
    start: Topology
    rank: Rank  # of the start
    exchanges: tuple[OrderedExchange, ...]

    @classmethod
    def of(cls, start: Topology, goal: Topology, problem: Problem, *, exchanges_max: int) -> ExchangeOrder:
        """Ends at the best tree on the way to the goal within `exchanges_max`; of equal ones, at the first."""
        before = problem.rank(start)
        exchanges = list(_ordered(start, before, goal, problem))[:exchanges_max]
        ranks = [before, *(exchange.rank for exchange in exchanges)]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        return cls(start, before, tuple(exchanges[:best]))

    @property
    def end(self) -> Topology:
        return self.exchanges[-1].tree if self.exchanges else self.start

    @property
    def rank_then(self) -> Rank:
        return self.exchanges[-1].rank if self.exchanges else self.rank

    @property
    def saving(self) -> float:
        return self.rank.cost - self.rank_then.cost

    def plan(self, protocol: str, circumstances: Circumstances) -> Plan:
        """As a plan; an exchange by swaps takes several steps."""
        steps: list[Step] = []
        tree = self.start
        for exchange in self.exchanges:
            steps += planned_exchange(
                tree, remove=exchange.remove, add=exchange.add, protocol=protocol, circumstances=circumstances
            ).steps
            tree = exchange.tree
        return Plan.of(self.start, steps)


def _ordered(tree: Topology, rank: Rank, goal: Topology, problem: Problem) -> Iterator[OrderedExchange]:
    flows = IndexedFlows.of(problem.flows, problem.costs)
    indexed, wanted = IndexedTree(tree, flows.names), IndexedTree(goal, flows.names)
    while choice := min(_possible(indexed, wanted, flows, problem.degree_max), default=None):
        move = choice.move
        indexed.exchange(move)
        after = indexed.topology(flows.names)
        then = problem.rank(after)
        named = [flows.names[broker] for broker in move.path]
        yield OrderedExchange(
            links_on(tuple(named))[move.place], link(named[0], named[-1]), rank.cost - then.cost, after, then
        )
        rank = then


class _Choice(NamedTuple):
    """Sorted by: neighbours above the limit, then loss."""

    more_excess: int
    loss: float
    move: LinkMove


def _possible(tree: IndexedTree, goal: IndexedTree, flows: IndexedFlows, degree_max: int) -> Iterator[_Choice]:
    for u, wanted in enumerate(goal.around):
        missing = [v for v in wanted if u < v and v not in tree.around[u]]
        if not missing:
            continue
        view = TreeView(tree, u, flows)
        for path in map(view.path, missing):
            for place, gain in enumerate(view.gains(path)):
                if path[place + 1] not in goal.around[path[place]]:
                    yield _Choice(tree.more_excess(path, place, degree_max), -gain, LinkMove(gain, path, place))
