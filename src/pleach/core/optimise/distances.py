"""Link costs from measured distances between brokers, where no costs are configured.

A single measurement is noisy, and noise would cause useless exchanges. Two measures reduce it: the shortest of the last
`KEPT` rounds counts, and links between the same two zones cost the same, the median of their measurements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import combinations
from statistics import median

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs
from pleach.core.overlay.plans.topology import Link, Topology, link

KEPT = 5
MILLISECONDS_MIN = 0.1
PROCESSING_MILLISECONDS = 0.5  # of an event at a broker: one link is better than two slightly shorter ones
UNREACHABLE_FACTOR = 1_000.0  # times the longest: no links to brokers that do not answer


class Distances:
    """Round-trip times between brokers, in seconds."""

    def __init__(self) -> None:
        self._rounds: dict[Link, deque[float]] = {}

    def measured(self, found: Mapping[Link, float]) -> None:
        """Brokers that did not answer keep their former distance."""
        for each, seconds in found.items():
            self._rounds.setdefault(each, deque(maxlen=KEPT)).append(seconds)

    def costs(self, tree: Topology, zones: Mapping[Node, str]) -> Costs:
        """Milliseconds one way, for all possible links."""
        pairs = [link(a, b) for a, b in combinations(tree.brokers, 2)]
        known = {each: milliseconds(min(self._rounds[each])) for each in pairs if each in self._rounds}
        longest = max(known.values(), default=MILLISECONDS_MIN)
        found = _by_zone(known, zones)
        for each in pairs:
            if each not in known:  # an existing link is usable even without a measurement
                found[each] = longest if tree.has_link(*each) else UNREACHABLE_FACTOR * longest
        return Costs(dict.fromkeys(tree.brokers, PROCESSING_MILLISECONDS), found)


def milliseconds(seconds: float) -> float:
    """One way, from a round trip in seconds."""
    return max(MILLISECONDS_MIN, 1_000.0 * seconds / 2)


def _by_zone(known: Mapping[Link, float], zones: Mapping[Node, str]) -> dict[Link, float]:
    """Brokers without a zone keep their own measurements."""
    together: dict[Link, list[float]] = {}
    for (a, b), cost in known.items():
        if zones.get(a) and zones.get(b):
            together.setdefault(link(zones[a], zones[b]), []).append(cost)
    typical = {pair: median(costs) for pair, costs in together.items()}
    return {
        (a, b): typical[link(zones[a], zones[b])] if zones.get(a) and zones.get(b) else cost
        for (a, b), cost in known.items()
    }
