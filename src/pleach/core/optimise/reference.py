"""Reference trees from global knowledge: MST and MIT (S1 §5.4), and the lower bound of §5.6.

The exact optimum of small networks, by enumeration of all trees, is in `lab/improve/optimum.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import fsum

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs, Flow
from pleach.core.overlay.plans.topology import Link, Topology, link


def spanning_links(brokers: Iterable[Node], weight: Mapping[Link, float]) -> tuple[Link, ...]:
    """The minimum spanning tree of these brokers (Prim); of equal links the first by name."""
    first, *rest = sorted(brokers)
    nearest = {broker: (weight[link(first, broker)], link(first, broker)) for broker in rest}
    links = []
    while nearest:
        broker = min(nearest, key=nearest.__getitem__)
        links.append(nearest.pop(broker)[1])
        for other, best in nearest.items():
            between = link(broker, other)
            nearest[other] = min(best, (weight[between], between))
    return tuple(sorted(links))


def minimum_spanning_tree(costs: Costs) -> Topology:
    """MST, §5.4.1: by link costs, regardless of traffic."""
    return Topology.of(spanning_links(costs.brokers, costs.communication), costs.brokers)


def common_traffic(flows: Iterable[Flow], brokers: Iterable[Node]) -> dict[Link, float]:
    """I({Bi, Bj}): how many events both consume or publish, for every two brokers."""
    common = {link(a, b): 0.0 for a, b in combinations(sorted(brokers), 2)}
    for flow in flows:
        for a, b in combinations(sorted(flow.members), 2):
            common[link(a, b)] += flow.events
    return common


def maximum_interest_tree(flows: Iterable[Flow], brokers: Iterable[Node]) -> Topology:
    """MIT, §5.4.2: by common traffic, regardless of link costs."""
    everyone = tuple(brokers)
    shared = common_traffic(flows, everyone)
    return Topology.of(spanning_links(everyone, {each: -count for each, count in shared.items()}), everyone)


def lower_bound(flows: Iterable[Flow], costs: Costs) -> float:
    """§5.6: every event on a minimum spanning tree of its own brokers.

    The name is the paper's. It is not a bound: a path over another broker may be cheaper (Steiner), see
    `tests/core/optimise/test_reference.py`. Half of its communication cost plus its processing cost is one.
    """
    return fsum(flow.events * _alone(flow, costs) for flow in flows)


def _alone(flow: Flow, costs: Costs) -> float:
    links = spanning_links(flow.members, costs.communication)
    return fsum([*(costs.processing[v] for v in flow.members), *(costs.communication[each] for each in links)])
