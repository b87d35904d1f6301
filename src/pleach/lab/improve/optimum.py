"""The cheapest tree of a small network, by enumeration: 8 brokers have 8^6 = 262,144 trees.

An event costs p at its publisher, and c + p of the receiving broker on every link of its delivery tree. So for a link
u–v with the brokers V on v's side, each event that crosses it towards v costs c + p_v, and the number of these events
D(V) depends only on V. With a table of D for all 2^n sets, the cost of a tree takes n - 1 lookups:

    cost(T) = Σ p_publisher + Σ over links u–v of D(V)·(c + p_v) + D(rest)·(c + p_u)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pleach.core.optimise.cost import Costs, Flow
from pleach.core.overlay.plans.topology import Topology

BROKERS_MAX = 8

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class AllTrees(NamedTuple):
    """One row per tree, one column per link: its ends, and the brokers on `leaf`'s side as bits."""

    leaf: Ints
    rest: Ints
    side: Ints


def cheapest_tree(flows: Sequence[Flow], costs: Costs) -> Topology:
    brokers = costs.brokers
    assert 2 < len(brokers) <= BROKERS_MAX
    trees = all_trees(len(brokers))
    best = int(np.argmin(_costs_of_all(trees, flows, costs)))
    pairs = zip(trees.leaf[best], trees.rest[best], strict=True)
    return Topology.of((brokers[a], brokers[b]) for a, b in pairs)


def _costs_of_all(trees: AllTrees, flows: Sequence[Flow], costs: Costs) -> Floats:
    """Without the publishers' own processing, which is the same for all trees."""
    brokers = costs.brokers
    demand = _demand(flows, brokers)
    p = np.array([costs.processing[broker] for broker in brokers])
    c = np.array([[costs.of_link(a, b) if a != b else 0.0 for b in brokers] for a in brokers])
    everyone = (1 << len(brokers)) - 1
    links = c[trees.leaf, trees.rest]
    inwards, outwards = demand[trees.side], demand[everyone ^ trees.side]
    total: Floats = (inwards * (links + p[trees.leaf]) + outwards * (links + p[trees.rest])).sum(axis=1)
    return total


def _demand(flows: Sequence[Flow], brokers: Sequence[str]) -> Floats:
    """D(V): events published outside V with subscribers inside, for every V."""
    bit = {broker: 1 << i for i, broker in enumerate(brokers)}
    sets = np.arange(1 << len(brokers))
    demand = np.zeros(len(sets))
    for flow in flows:
        wanted = sum(bit[broker] for broker in flow.subscribers)
        demand += flow.events * ((sets & bit[flow.publisher] == 0) & (sets & wanted != 0))
    return demand


@lru_cache(maxsize=BROKERS_MAX)
def all_trees(count: int) -> AllTrees:
    """Every labelled tree, from its Prüfer sequence; all sequences are decoded in parallel."""
    codes = np.indices((count,) * (count - 2)).reshape(count - 2, -1).T
    rows = np.arange(len(codes))
    degree = 1 + (codes[:, :, None] == np.arange(count)).sum(axis=1)
    below = np.tile(1 << np.arange(count), (len(codes), 1))  # brokers attached to each broker so far, and itself
    links = []
    for column in range(count - 2):
        leaf, parent = np.argmax(degree == 1, axis=1), codes[:, column]
        links.append((leaf, parent, below[rows, leaf]))
        below[rows, parent] |= below[rows, leaf]
        degree[rows, leaf] = 0
        degree[rows, parent] -= 1
    last = np.argmax(degree == 1, axis=1)
    degree[rows, last] = 0
    links.append((last, np.argmax(degree == 1, axis=1), below[rows, last]))
    return AllTrees(*(np.stack(each, axis=1) for each in zip(*links, strict=True)))
