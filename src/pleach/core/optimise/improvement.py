"""The decision of the improvement loop: whether a tree should change for recent traffic.

The search nearly always finds a cheaper tree, since samples vary. An exchange is a disturbance, so it needs four
conditions, each with a verdict (`ImproveVerdict`). Rules 2 and 3 are those of `settling.py`, for all exchanges
together:

1. *It saves enough*: at least a configured share of the cost.
2. *It is no chance*: more than `DEVIATIONS` times the standard deviation of the saving under random traffic.
3. *It pays*: it saves more in the observed time than the exchanges cost.
4. *The limit per minute allows it*. Where it allows only some exchanges, the best of them are made.

The order of exchanges ends where the rest saves too little by rule 1. With steady traffic the loop stops: each change
lowers the cost by a share, and the cost has a minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import fsum, sqrt

from pleach.core.optimise.cost import Costs, Flow, flow_cost
from pleach.core.optimise.exchange_order import ExchangeOrder, OrderedExchange
from pleach.core.optimise.search import Problem, SearchEnd, SearchTask, best_of
from pleach.core.optimise.settling import DEVIATIONS, EXCHANGE_PASSES
from pleach.core.optimise.sightings import TrafficSample
from pleach.core.overlay.plans.topology import Topology

SAVING_MIN = 0.05
DEGREE_MAX = 8
EXCHANGES_MAX = 100  # at once, where the limit per minute allows more


class ImproveVerdict(StrEnum):
    """Why a tree is changed, or not."""

    IMPROVE = "improve"
    QUIET = "nothing is published for other brokers"
    BEST = "no tree that was found is cheaper"
    LITTLE = "it saves too little"
    CHANCE = "it may be chance"
    DEAR = "the exchanges cost more than they save"
    LIMIT = "it takes more exchanges than may be made now"
    SWAPS = "it takes several swaps, and no broker may begin them all"


@dataclass(frozen=True)
class Rules:
    saving_min: float = SAVING_MIN  # of the cost
    degree_max: int = DEGREE_MAX  # neighbours; a tree that exceeds it is not repaired

    def problem(self, pick: TrafficSample, tree: Topology, costs: Costs) -> Problem:
        most = max(len(others) for others in tree.around.values())
        return Problem(pick.flows, costs, max(self.degree_max, most))


@dataclass(frozen=True)
class Proposal:
    """`order`: the exchanges that may be made now; empty if nothing is gained."""

    verdict: ImproveVerdict
    order: ExchangeOrder
    pick: TrafficSample

    @property
    def is_worth_it(self) -> bool:
        return self.verdict is ImproveVerdict.IMPROVE

    @property
    def cost_now(self) -> float:
        """Per event."""
        return self.order.rank.cost / self._events

    @property
    def cost_then(self) -> float:
        return self.order.rank_then.cost / self._events

    @property
    def share_saved(self) -> float:
        return self.order.saving / self.order.rank.cost if self.order.rank.cost else 0.0

    @property
    def _events(self) -> float:
        return self.pick.events or 1.0


def proposed(task: SearchTask, ends: Iterable[SearchEnd], pick: TrafficSample, rules: Rules, *, leave: int) -> Proposal:
    """The proposal for a tree from search results. `leave`: exchanges that may be made now."""
    problem, tree = task.problem, task.current
    goal = best_of(end.found for end in ends).tree
    whole = trimmed(ExchangeOrder.of(tree, goal, problem, exchanges_max=EXCHANGES_MAX), rules.saving_min)
    verdict = _verdict(whole, pick, problem, rules)
    if verdict is not ImproveVerdict.IMPROVE:
        return Proposal(verdict, whole, pick)
    allowed = ExchangeOrder.of(tree, whole.end, problem, exchanges_max=leave)
    return Proposal(verdict, allowed, pick) if allowed.exchanges else Proposal(ImproveVerdict.LIMIT, whole, pick)


def trimmed(order: ExchangeOrder, saving_min: float) -> ExchangeOrder:
    """The exchanges up to the first tree from which the rest saves too small a share."""
    least = order.rank_then.cost
    for number, exchange in enumerate(order.exchanges, start=1):
        if exchange.rank.cost - least < saving_min * exchange.rank.cost:
            return replace(order, exchanges=order.exchanges[:number])
    return order


def _verdict(order: ExchangeOrder, pick: TrafficSample, problem: Problem, rules: Rules) -> ImproveVerdict:
    if not any(flow.subscribers for flow in pick.flows):
        return ImproveVerdict.QUIET
    if order.saving <= 0.0:
        return ImproveVerdict.BEST
    if order.saving < rules.saving_min * order.rank.cost:
        return ImproveVerdict.LITTLE
    if order.saving <= DEVIATIONS * deviation(pick.flows, order.start, order.end, problem.costs):
        return ImproveVerdict.CHANCE
    if pick.one_in * order.saving <= cost_of_change(order, problem.costs):
        return ImproveVerdict.DEAR
    return ImproveVerdict.IMPROVE


def deviation(flows: Iterable[Flow], tree: Topology, other: Topology, costs: Costs) -> float:
    """The standard deviation of the difference of two trees' costs, if events arrive at random (Poisson)."""
    variances = []
    for flow in flows:
        one = flow._replace(events=1.0)
        variances.append(flow.events * (flow_cost(one, tree, costs) - flow_cost(one, other, costs)) ** 2)
    return sqrt(fsum(variances))


def cost_of_change(order: ExchangeOrder, costs: Costs) -> float:
    """Each exchange sends EXCHANGE_PASSES messages along its cycle (`settling.py`)."""
    trees = [order.start, *(exchange.tree for exchange in order.exchanges)]
    return fsum(
        _cost_of_exchange(tree, exchange, costs) for tree, exchange in zip(trees, order.exchanges, strict=False)
    )


def _cost_of_exchange(tree: Topology, exchange: OrderedExchange, costs: Costs) -> float:
    path: Sequence[str] = tree.path(*exchange.add)
    along = [*(costs.processing[broker] for broker in path), *(costs.of_link(a, b) for a, b in pairwise(path))]
    return EXCHANGE_PASSES * fsum(along)
