"""From one tree to a cheaper one in the order that pays: exchanges of links, the one that saves most first.

For each link that is missing there is one exchange (S1 Theorem 2): it comes, and a link that is not wanted goes, one on
the cycle that it closes. Which of them come first decides how soon the saving comes, and what is left if the journey
ends early. It may: `Journey.of` ends at the best tree within `exchanges_max`.
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


class Leg(NamedTuple):
    """One exchange. A negative saving is made up for by those that follow."""

    remove: Link
    add: Link
    saving: float
    tree: Topology  # after it
    rank: Rank


@dataclass(frozen=True)
class Journey:
    start: Topology
    rank: Rank  # of the start
    legs: tuple[Leg, ...]

    @classmethod
    def of(cls, start: Topology, goal: Topology, problem: Problem, *, exchanges_max: int) -> Journey:
        """Ends at the best of the trees on the way to the goal, within so many exchanges: the first, of equal ones."""
        before = problem.rank(start)
        legs = list(_legs(start, before, goal, problem))[:exchanges_max]
        ranks = [before, *(leg.rank for leg in legs)]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        return cls(start, before, tuple(legs[:best]))

    @property
    def end(self) -> Topology:
        return self.legs[-1].tree if self.legs else self.start

    @property
    def rank_then(self) -> Rank:
        return self.legs[-1].rank if self.legs else self.rank

    @property
    def saving(self) -> float:
        return self.rank.cost - self.rank_then.cost

    def plan(self, protocol: str, circumstances: Circumstances) -> Plan:
        """As steps of a plan; an exchange by swaps is several of them."""
        steps: list[Step] = []
        tree = self.start
        for leg in self.legs:
            steps += planned_exchange(
                tree, remove=leg.remove, add=leg.add, protocol=protocol, circumstances=circumstances
            ).steps
            tree = leg.tree
        return Plan.of(self.start, steps)


def _legs(tree: Topology, rank: Rank, goal: Topology, problem: Problem) -> Iterator[Leg]:
    priced = IndexedFlows.of(problem.flows, problem.costs)
    growth, wanted = IndexedTree(tree, priced.names), IndexedTree(goal, priced.names)
    while choice := min(_possible(growth, wanted, priced, problem.degree_max), default=None):
        move = choice.move
        growth.exchange(move)
        after = growth.topology(priced.names)
        then = problem.rank(after)
        named = [priced.names[broker] for broker in move.path]
        yield Leg(links_on(tuple(named))[move.place], link(named[0], named[-1]), rank.cost - then.cost, after, then)
        rank = then


class _Choice(NamedTuple):
    """Neighbours above the limit are avoided on the way, too, where there is another one."""

    more_excess: int
    loss: float
    move: LinkMove


def _possible(tree: IndexedTree, goal: IndexedTree, priced: IndexedFlows, degree_max: int) -> Iterator[_Choice]:
    for u, wanted in enumerate(goal.around):
        missing = [v for v in wanted if u < v and v not in tree.around[u]]
        if not missing:
            continue
        view = TreeView(tree, u, priced)
        for path in map(view.path, missing):
            for place, gain in enumerate(view.gains(path)):
                if path[place + 1] not in goal.around[path[place]]:
                    yield _Choice(tree.more_excess(path, place, degree_max), -gain, LinkMove(gain, path, place))
