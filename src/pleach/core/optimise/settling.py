"""When an exchange is worth it, so that a tree comes to rest (open in S1 §5.8).

S1's CI changes links for as long as it runs: its sums are estimates, and every estimate is a new reason. Here the
brokers of the cycle know from their ledgers what an exchange would have saved of the events of the last while. Two
conditions:

1. *It pays*: it saves more in such a while than the exchange itself costs.
2. *It is no chance*: events come at random; were the true saving nothing, the ledgers would still differ from it by
   about √Σ nₖ·sₖ² (Poisson; nₖ events that save sₖ each). The saving must be `DEVIATIONS` times that.

Every exchange then lowers the cost of the tree for the traffic that there is. There are finitely many trees: with
steady traffic, an end comes. And whoever is refused asks again later and later (`PATIENCE_MAX`), whoever took part in
no exchange broadcasts less often (`INTERVAL_MAX`): at rest there is little talk, too.
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
    """Of all exchanges on this cycle the one that would have saved most; `places`: behind which a link may go."""
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
    """The best exchange, if it pays and is no chance. `one_in`: how many events stand for each that ledgers have."""
    exchange, chance = best_saving(path, found, costs)
    pays = one_in * exchange.gain > cost_of_exchange(path, costs)
    return exchange if pays and exchange.gain > DEVIATIONS * chance else None


def cost_of_exchange(path: Sequence[Node], costs: Costs) -> float:
    along = fsum([*(costs.processing[v] for v in path), *(costs.of_link(a, b) for a, b in pairwise(path))])
    return EXCHANGE_PASSES * along
