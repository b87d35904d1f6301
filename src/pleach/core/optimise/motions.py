"""A motion for another link, judged by the broker at its end: which link of the way goes for it, if any.

What the exchange saves is known from the ledgers along the way (ledger.py). The rules are those of `settling.py`, and
that it must save a share of what there is: costs that are measured are never twice the same.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pleach.core.messages import Motion, Node, RequestExchange, RequestSwap
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.heuristics import cycle_links
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.core.optimise.ledger import Stretch, costs_without
from pleach.core.optimise.settling import DEVIATIONS, best_saving, cost_of_exchange
from pleach.core.overlay.choice import BY_SWAPS, ONE_SWAP, Circumstances, recommended
from pleach.core.overlay.plans.topology import Link


class MotionJudgement(NamedTuple):
    """`place`: behind which broker of the path the link lies that goes. Costs are of all events of the window."""

    verdict: ImproveVerdict
    path: tuple[Node, ...]
    place: int = 0
    events: int = 0  # as many as the sample stands for
    cost: float = 0.0
    saving: float = 0.0

    @property
    def remove(self) -> Link:
        return cycle_links(self.path)[self.place]

    @property
    def add(self) -> Link:
        return cycle_links(self.path)[-1]

    @property
    def is_worth_it(self) -> bool:
        return self.verdict is ImproveVerdict.IMPROVE

    @property
    def share_saved(self) -> float:
        return self.saving / self.cost if self.cost else 0.0

    def __str__(self) -> str:
        exchange = f"− {'–'.join(self.remove)} + {'–'.join(self.add)}"
        return f"{exchange}, saves {self.share_saved:.0%} of what {self.events:,} events cost"


def path_of(motion: Motion) -> tuple[Node, ...]:
    return tuple(each.broker for each in motion.way)


def costs_of(motion: Motion) -> Costs:
    """Of the cycle: as those who measured told them."""
    processing = {each.broker: each.processing for each in motion.way}
    return Costs(processing, dict(zip(cycle_links(path_of(motion)), motion.links, strict=True)))


def stretches_of(motion: Motion) -> list[Stretch]:
    brokers = range(len(motion.way))
    counted = Counter(motion.touched.values())
    return [
        Stretch(frozenset(place for place in brokers if mask >> place & 1), float(events))
        for mask, events in sorted(counted.items())
    ]


def places_for(motion: Motion, degree_max: int) -> list[int]:
    """Behind which a link may go: the ends of the new one get a neighbour, unless they give up another one for it."""
    last = len(motion.way) - 2
    is_full = [motion.way[end].degree >= degree_max for end in (0, -1)]
    return [place for place in range(last + 1) if (not is_full[0] or place == 0) and (not is_full[1] or place == last)]


def judged(motion: Motion, conduct: CouncilSettings) -> MotionJudgement:
    path, costs, found = path_of(motion), costs_of(motion), stretches_of(motion)
    places = places_for(motion, conduct.degree_max)
    if not any(len(stretch.touched) > 1 for stretch in found):
        return MotionJudgement(ImproveVerdict.QUIET, path)
    if not places:
        return MotionJudgement(ImproveVerdict.LIMIT, path)
    exchange, chance = best_saving(path, found, costs, places)
    one_in = 1 << motion.level
    now = costs_without(path, found, costs)[-1]
    place = cycle_links(path).index(exchange.remove)
    events = one_in * len(motion.touched)
    judgement = MotionJudgement(ImproveVerdict.IMPROVE, path, place, events, one_in * now, one_in * exchange.gain)
    if exchange.gain <= 0.0:
        return judgement._replace(verdict=ImproveVerdict.BEST)
    if exchange.gain < conduct.saving_min * now:
        return judgement._replace(verdict=ImproveVerdict.LITTLE)
    if exchange.gain <= DEVIATIONS * chance:
        return judgement._replace(verdict=ImproveVerdict.CHANCE)
    if one_in * exchange.gain <= cost_of_exchange(path, costs):
        return judgement._replace(verdict=ImproveVerdict.DEAR)
    return judgement


def request_for(
    judgement: MotionJudgement, operation: str, where: Circumstances
) -> RequestSwap | RequestExchange | None:
    """The exchange in the words of the overlay, so that it begins at the last broker of the path, which has decided.

    Nobody has to be sought for it, in a tree that may be changing elsewhere. And who is busy is not asked again: the
    tree that the judgement speaks of would be another one by then. So one swap that begins here is all of swaps that is
    asked for; None where others are recommended: another broker would have to begin some of them.
    """
    path, cut = judgement.path[::-1], len(judgement.path) - 2 - judgement.place
    if len(path) == ONE_SWAP and cut == 0:
        a, b, c = path
        return RequestSwap(operation, a, b, c, is_patient=False)
    # A swap that begins elsewhere is as good as two.
    protocol = recommended(max(len(path), ONE_SWAP + 1), where).protocol
    if protocol == BY_SWAPS:
        return None
    return RequestExchange(operation, list(path), cut, protocol, is_patient=False)
