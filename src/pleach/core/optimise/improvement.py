"""Whether a tree should change, for the traffic of the last while: what a loop asks again and again.

The search finds a cheaper tree nearly always, since samples differ from minute to minute. An exchange is a disturbance,
so that four conditions stand before it, each with a name (`ImproveVerdict`). Two are those of `settling.py`, for
all exchanges of the journey together:

1. *It saves enough*: a share of the cost that the operator names.
2. *It is no chance*: more than `DEVIATIONS` times what the saving would vary by if traffic came at random.
3. *It pays*: what it saves in such a while is more than what the exchanges cost.
4. *There is leave to act*: so many exchanges a minute. Where there is leave for some only, the best of those are made.

Of a journey that is worth it, the last exchanges may not be: it ends where the rest saves too little by rule 1. With
steady traffic an end comes: every journey lowers the cost by a share, and the cost has a least value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import fsum, sqrt

from pleach.core.optimise.cost import Costs, Flow, flow_cost
from pleach.core.optimise.exchange_order import Journey, Leg
from pleach.core.optimise.search import Problem, best_of
from pleach.core.optimise.settling import DEVIATIONS, EXCHANGE_PASSES
from pleach.core.optimise.sightings import Pick
from pleach.core.optimise.tasks import End, Task
from pleach.core.overlay.plans.topology import Topology

SAVING_MIN = 0.05
DEGREE_MAX = 8
EXCHANGES_MAX = 100  # of one journey, where the limit per minute leaves more


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
    degree_max: int = DEGREE_MAX  # neighbours; a tree that has more keeps them: the loop saves, it does not repair

    def problem(self, pick: Pick, tree: Topology, costs: Costs) -> Problem:
        most = max(len(others) for others in tree.around.values())
        return Problem(pick.flows, costs, max(self.degree_max, most))


@dataclass(frozen=True)
class Proposal:
    """`journey`: as far as there is leave to go; empty if there is nothing to gain."""

    verdict: ImproveVerdict
    journey: Journey
    pick: Pick

    @property
    def is_worth_it(self) -> bool:
        return self.verdict is ImproveVerdict.IMPROVE

    @property
    def cost_now(self) -> float:
        """Per event."""
        return self.journey.rank.cost / self._events

    @property
    def cost_then(self) -> float:
        return self.journey.rank_then.cost / self._events

    @property
    def share_saved(self) -> float:
        return self.journey.saving / self.journey.rank.cost if self.journey.rank.cost else 0.0

    @property
    def _events(self) -> float:
        return self.pick.events or 1.0


def proposed(task: Task, ends: Iterable[End], pick: Pick, rules: Rules, *, leave: int) -> Proposal:
    """What to do about a tree, by the ends of searches. `leave`: exchanges that may be made now."""
    problem, tree = task.problem, task.current
    goal = best_of(end.found for end in ends).tree
    whole = trimmed(Journey.of(tree, goal, problem, exchanges_max=EXCHANGES_MAX), rules.saving_min)
    verdict = _verdict(whole, pick, problem, rules)
    if verdict is not ImproveVerdict.IMPROVE:
        return Proposal(verdict, whole, pick)
    allowed = Journey.of(tree, whole.end, problem, exchanges_max=leave)
    return Proposal(verdict, allowed, pick) if allowed.legs else Proposal(ImproveVerdict.LIMIT, whole, pick)


def trimmed(journey: Journey, saving_min: float) -> Journey:
    """Up to the first tree from which the rest saves too small a share."""
    least = journey.rank_then.cost
    for number, leg in enumerate(journey.legs, start=1):
        if leg.rank.cost - least < saving_min * leg.rank.cost:
            return replace(journey, legs=journey.legs[:number])
    return journey


def _verdict(journey: Journey, pick: Pick, problem: Problem, rules: Rules) -> ImproveVerdict:
    if not any(flow.subscribers for flow in pick.flows):
        return ImproveVerdict.QUIET
    if journey.saving <= 0.0:
        return ImproveVerdict.BEST
    if journey.saving < rules.saving_min * journey.rank.cost:
        return ImproveVerdict.LITTLE
    if journey.saving <= DEVIATIONS * deviation(pick.flows, journey.start, journey.end, problem.costs):
        return ImproveVerdict.CHANCE
    if pick.one_in * journey.saving <= cost_of_change(journey, problem.costs):
        return ImproveVerdict.DEAR
    return ImproveVerdict.IMPROVE


def deviation(flows: Iterable[Flow], tree: Topology, other: Topology, costs: Costs) -> float:
    """By how much the difference of two trees' costs varies, if events come at random (Poisson)."""
    variances = []
    for flow in flows:
        one = flow._replace(events=1.0)
        variances.append(flow.events * (flow_cost(one, tree, costs) - flow_cost(one, other, costs)) ** 2)
    return sqrt(fsum(variances))


def cost_of_change(journey: Journey, costs: Costs) -> float:
    """As in `settling.py`: each exchange passes along its cycle so many times."""
    trees = [journey.start, *(leg.tree for leg in journey.legs)]
    return fsum(_cost_of_exchange(tree, leg, costs) for tree, leg in zip(trees, journey.legs, strict=False))


def _cost_of_exchange(tree: Topology, leg: Leg, costs: Costs) -> float:
    path: Sequence[str] = tree.path(*leg.add)
    along = [*(costs.processing[broker] for broker in path), *(costs.of_link(a, b) for a, b in pairwise(path))]
    return EXCHANGE_PASSES * fsum(along)
