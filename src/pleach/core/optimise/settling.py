"""Settling: when an exchange is worthwhile, so that a tree stops changing under steady traffic (open in S1 §5.8).

S1's CI exchanges links for as long as it runs, since its sums are estimates that keep varying. Here the brokers of the
cycle know from their ledgers what an exchange would have saved of recent events. Two conditions:

1. *It pays*: it saves more, in the time that ledgers cover, than the exchange itself costs.
2. *It is no chance*: events arrive at random. With a true saving of 0, the ledgers would still show a saving of about
   √Σ nₖ·sₖ² (Poisson; nₖ events that save sₖ each). The saving must be `DEVIATIONS` times that.

Every exchange then lowers the cost of the tree for the present traffic. There are finitely many trees, so with steady
traffic the exchanges end. Back-offs reduce messages at rest: a refused broker asks again ever later (`PATIENCE_MAX`),
and a broker without exchanges broadcasts less often (`INTERVAL_MAX`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum, sqrt
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.heuristics import LinkExchangeChoice, cycle_links
from pleach.core.optimise.ledger import Stretch, costs_without

DEVIATIONS = 3.0
EXCHANGE_PASSES = 4  # messages of an exchange along the path: lock, activate, hand over, unlock
PATIENCE_MAX = 32  # broadcast intervals between two requests for the same link
INTERVAL_MAX = 8  # broadcast intervals between two broadcasts of a broker


class Saving(NamedTuple):
    exchange: LinkExchangeChoice
    chance: float  # the standard deviation of the gain


def best_saving(
    path: Sequence[Node], found: Sequence[Stretch], costs: Costs, places: Sequence[int] | None = None
) -> Saving:
    """The exchange on this cycle that would have saved most; `places`: whose link may be removed."""
    each = [costs_without(path, [Stretch(stretch.touched, 1.0)], costs) for stretch in found]
    gains = [
        fsum(stretch.events * (one[-1] - one[place]) for stretch, one in zip(found, each, strict=True))
        for place in range(len(path) - 1)
    ]
    place = max(range(len(gains)) if places is None else places, key=gains.__getitem__)
    variance = fsum(stretch.events * (one[-1] - one[place]) ** 2 for stretch, one in zip(found, each, strict=True))
    *others, new = cycle_links(path)
    return Saving(LinkExchangeChoice(others[place], new, gains[place]), sqrt(variance))


def worthwhile(
    path: Sequence[Node], found: Sequence[Stretch], costs: Costs, *, one_in: int = 1
) -> LinkExchangeChoice | None:
    """The best exchange, if it pays and is no chance. `one_in`: events that each event of the ledgers stands for."""
    exchange, chance = best_saving(path, found, costs)
    pays = one_in * exchange.gain > cost_of_exchange(path, costs)
    return exchange if pays and exchange.gain > DEVIATIONS * chance else None


def cost_of_exchange(path: Sequence[Node], costs: Costs) -> float:
    along = fsum([*(costs.processing[v] for v in path), *(costs.of_link(a, b) for a, b in pairwise(path))])
    return EXCHANGE_PASSES * along
