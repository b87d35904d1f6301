"""The cost of a tree (S1 §5.2.1, §5.3.1): every broker and link of an event's delivery tree, once per event.

    cost(n, T) = Σ p_v + Σ c_e   over the brokers v and links e of the smallest part of T that connects V(n)

V(n) are the brokers of the publisher and the subscribers of event n. Events with the same V(n) form one *flow* with
their number; nothing here processes events one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.core.overlay.plans.topology import Link, Topology, link


@dataclass(frozen=True)
class Costs:
    """Per event: p_v of each broker, c_e of every possible link."""

    processing: Mapping[Node, float]
    communication: Mapping[Link, float]

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(sorted(self.processing))

    def of_link(self, a: Node, b: Node) -> float:
        return self.communication[link(a, b)]


class Flow(NamedTuple):
    """Events from one broker to the same set of others."""

    publisher: Node
    subscribers: frozenset[Node]
    events: float = 1.0

    @property
    def members(self) -> frozenset[Node]:
        return self.subscribers | {self.publisher}


class DeliveryTree(NamedTuple):
    brokers: frozenset[Node]
    links: frozenset[Link]


def delivery_tree(tree: Topology, flow: Flow) -> DeliveryTree:
    """S1 Definition 10: the union of the paths from the publisher to each subscriber."""
    brokers, links = {flow.publisher}, set[Link]()
    for subscriber in flow.subscribers:
        way = tree.path(flow.publisher, subscriber)
        brokers.update(way)
        links.update(link(a, b) for a, b in pairwise(way))
    return DeliveryTree(frozenset(brokers), frozenset(links))


def flow_cost(flow: Flow, tree: Topology, costs: Costs) -> float:
    """(5.2), for all events of the flow. `fsum` is exact, so the iteration order of sets does not matter."""
    delivered = delivery_tree(tree, flow)
    processing = fsum(costs.processing[broker] for broker in delivered.brokers)
    return flow.events * (processing + fsum(costs.communication[each] for each in delivered.links))


def tree_cost(flows: Iterable[Flow], tree: Topology, costs: Costs) -> float:
    """(5.3)."""
    return fsum(flow_cost(flow, tree, costs) for flow in flows)
