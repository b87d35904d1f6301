"""What links cost where nobody has written it down: by how far brokers are from each other, as they have measured it.

A single measurement is noisy, and noise is a reason to exchange links for nothing. Two things take it out: of the last
`KEPT` rounds the shortest counts, and links between the same two zones cost the same, the median of theirs.
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
PROCESSING_MILLISECONDS = (
    0.5  # of an event at a broker: two short links are not better than one that is a little longer
)
UNREACHABLE_FACTOR = 1_000.0  # of the longest: where nobody answers no link is wanted


class Distances:
    """Between brokers, in seconds there and back."""

    def __init__(self) -> None:
        self._rounds: dict[Link, deque[float]] = {}

    def measured(self, found: Mapping[Link, float]) -> None:
        """Who did not answer this time is as far as it was."""
        for each, seconds in found.items():
            self._rounds.setdefault(each, deque(maxlen=KEPT)).append(seconds)

    def costs(self, tree: Topology, zones: Mapping[Node, str]) -> Costs:
        """Milliseconds one way, for all links that there could be."""
        pairs = [link(a, b) for a, b in combinations(tree.brokers, 2)]
        known = {each: milliseconds(min(self._rounds[each])) for each in pairs if each in self._rounds}
        longest = max(known.values(), default=MILLISECONDS_MIN)
        found = _by_zone(known, zones)
        for each in pairs:
            if each not in known:  # a link that is there can be used, whatever could be measured
                found[each] = longest if tree.has_link(*each) else UNREACHABLE_FACTOR * longest
        return Costs(dict.fromkeys(tree.brokers, PROCESSING_MILLISECONDS), found)


def milliseconds(seconds: float) -> float:
    """One way, of seconds there and back."""
    return max(MILLISECONDS_MIN, 1_000.0 * seconds / 2)


def _by_zone(known: Mapping[Link, float], zones: Mapping[Node, str]) -> dict[Link, float]:
    """Brokers that do not say where they are count one by one."""
    together: dict[Link, list[float]] = {}
    for (a, b), cost in known.items():
        if zones.get(a) and zones.get(b):
            together.setdefault(link(zones[a], zones[b]), []).append(cost)
    typical = {pair: median(costs) for pair, costs in together.items()}
    return {
        (a, b): typical[link(zones[a], zones[b])] if zones.get(a) and zones.get(b) else cost
        for (a, b), cost in known.items()
    }
