"""Conversion of a complete tree and its demand to a network, to compare both forms of the model."""

from itertools import pairwise

from pleach.model.complete import CompleteTree, Demand, Publishers, subscriptions_per_leaf
from pleach.model.network import Broker, FilterClass, Network, Rates


def as_network(tree: CompleteTree, demand: Demand, publishers: Publishers = Publishers.ROOT) -> Network:
    levels = [[_name(level, place) for place in range(tree.fanout**level)] for level in range(tree.levels)]
    children = {
        parent: below[place * tree.fanout : (place + 1) * tree.fanout]
        for above, below in pairwise(levels)
        for place, parent in enumerate(above)
    }
    return Network(levels[0][0], children, [_class(levels, tree, demand, publishers)], demand.refresh)


def _name(level: int, place: int) -> Broker:
    return f"{level}.{place}"


def _class(levels: list[list[Broker]], tree: CompleteTree, demand: Demand, publishers: Publishers) -> FilterClass:
    """One class that stands for all equal ones."""
    departures = 1 / demand.lifetime
    arrivals = subscriptions_per_leaf(tree, demand) * departures
    publishing = levels[0] if publishers is Publishers.ROOT else levels[-1]
    each = demand.publications / demand.classes / len(publishing)
    at = {broker: Rates(arrivals, departures) for broker in levels[-1]}
    for broker in publishing:
        at[broker] = at.get(broker, Rates(0.0, departures))._replace(publications=each)
    return FilterClass(at, demand.classes)
