"""Any tree into any other (S1 Theorem 2; S0 §V, property 2).

    1. New brokers become leaves, each at a neighbour that it has in the target, if one is there.
    2. Swaps, until all links of the target are there (`search.py`); or exchanges, one for each link that is missing.
    3. Then the brokers of the target are joined among themselves, and all others hang off them: these go, leaves first.

Brokers go last, so that a plan which ends in the middle has taken nobody's broker away. Links that both trees have are
never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans.cycle import links_on
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.search import swaps_towards
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, Step, apply
from pleach.core.overlay.plans.topology import Link, Topology
from pleach.core.overlay.registry import CYCLES

Changes: TypeAlias = Callable[[Topology, Iterable[Link]], Sequence[Step]]  # until all of these links are there


def transform(topology: Topology, target: Topology, *, protocol: str = "", width: int | None = None) -> Plan:
    """A plan with few swaps, or exchanges by `protocol`, disjoint ones in one wave. `width`: see `swaps_towards`."""
    return transform_by(topology, target, partial(_changes, protocol=protocol, width=width))


def transform_by(topology: Topology, target: Topology, changes: Changes) -> Plan:
    """A plan that leaves it to `changes` how the links of the target come to be."""
    steps: list[Step] = []
    tree = topology
    for add in _additions(topology, target):
        tree = apply(tree, add)
        steps.append(add)
    for change in changes(tree, target.links):
        tree = apply(tree, change)
        steps.append(change)
    steps += _removals(tree, target)
    return Plan.of(topology, steps)


def _changes(tree: Topology, wanted: Iterable[Link], *, protocol: str, width: int | None) -> Sequence[Step]:
    if protocol in CYCLES:
        return exchanges_towards(tree, wanted, protocol)
    return [msgspec.structs.replace(swap, protocol=protocol) for swap in swaps_towards(tree, wanted, width=width)]


def exchanges_towards(tree: Topology, wanted: Iterable[Link], protocol: str) -> list[ExchangeStep]:
    """One for each wanted link that is missing (S1 Theorem 2), the shortest cycle first: fewer brokers are locked."""
    goal = frozenset(wanted)
    found: list[ExchangeStep] = []
    while ways := [tree.path(u, v) for u, v in sorted(goal - {*tree.links})]:
        way = min(ways, key=lambda way: (len(way), way))
        removed = next(link for link in links_on(way) if link not in goal)  # there is one, or the goal has a cycle
        found.append(ExchangeStep(removed, (way[0], way[-1]), protocol))
        tree = apply(tree, found[-1])
    return found


def _additions(tree: Topology, target: Topology) -> list[AddStep]:
    """From the brokers that both trees have outwards; where they have none in common, from any of the first tree."""
    found: list[AddStep] = []
    while outside := [broker for broker in target.brokers if broker not in tree]:
        joining = [broker for broker in outside if any(other in tree for other in target.around[broker])]
        add = _best_place(tree, target, joining[0]) if joining else AddStep(outside[0], tree.brokers[0])
        tree = apply(tree, add)
        found.append(add)
    return found


def _best_place(tree: Topology, target: Topology, broker: Node) -> AddStep:
    """At the one of its neighbours in the target from which the others are nearest."""
    there = [other for other in target.neighbours(broker) if other in tree]
    return AddStep(broker, min(there, key=lambda to: (sum(len(tree.path(to, other)) for other in there), to)))


def _removals(tree: Topology, target: Topology) -> list[RemoveStep]:
    found: list[RemoveStep] = []
    while leaves := [broker for broker in tree.brokers if broker not in target and tree.is_leaf(broker)]:
        for broker in leaves:
            tree = apply(tree, RemoveStep(broker))
            found.append(RemoveStep(broker))
    return found
