"""Plans that turn any tree into any other (S1 Theorem 2; S0 §V, property 2).

    1. New brokers become leaves, each at a neighbour that it has in the target, if one exists.
    2. Swaps until all links of the target exist (`search.py`); or exchanges, one for each missing link.
    3. Then the brokers of the target form a subtree, and all others are attached to it: these are removed, leaves
       first.

Brokers are removed last, so that a plan that stops halfway has removed no broker. Links that both trees have are never
changed.
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

Changes: TypeAlias = Callable[[Topology, Iterable[Link]], Sequence[Step]]  # until all of these links exist


def transform(topology: Topology, target: Topology, *, protocol: str = "", width: int | None = None) -> Plan:
    """A plan with few swaps, or exchanges by `protocol`; disjoint ones share a wave. `width`: see `swaps_towards`."""
    return transform_by(topology, target, partial(_changes, protocol=protocol, width=width))


def transform_by(topology: Topology, target: Topology, changes: Changes) -> Plan:
    """A plan that makes the links of the target by `changes`."""
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
    """One for each missing link (S1 Theorem 2), the shortest cycle first, which locks fewer brokers."""
    goal = frozenset(wanted)
    found: list[ExchangeStep] = []
    while first := exchanges_at_once(tree, goal, protocol, most=1):
        found += first
        tree = apply(tree, first[0])
    return found


def exchanges_at_once(
    tree: Topology, wanted: Iterable[Link], protocol: str, *, kept: Iterable[Link] = (), most: int
) -> list[ExchangeStep]:
    """The first of `exchanges_towards`, and others whose cycles share no broker with it or each other.

    `kept`: links that do not go for missing ones. None are found where no link is missing.
    """
    goal = frozenset(wanted)
    stay = goal.union(kept)
    ways = sorted((tree.path(u, v) for u, v in goal.difference(tree.links)), key=lambda way: (len(way), way))
    taken: set[Node] = set()
    found: list[ExchangeStep] = []
    for way in ways:
        removed = next((link for link in links_on(way) if link not in stay), None)
        if removed is not None and taken.isdisjoint(way):  # there is one, if what is wanted and kept has no cycle
            found.append(ExchangeStep(removed, (way[0], way[-1]), protocol))
            taken.update(way)
        if len(found) == most:
            break
    return found


def _additions(tree: Topology, target: Topology) -> list[AddStep]:
    """Outwards from the brokers that both trees have; if none, from any broker of the first tree."""
    found: list[AddStep] = []
    while outside := [broker for broker in target.brokers if broker not in tree]:
        joining = [broker for broker in outside if any(other in tree for other in target.around[broker])]
        add = _best_place(tree, target, joining[0]) if joining else AddStep(outside[0], tree.brokers[0])
        tree = apply(tree, add)
        found.append(add)
    return found


def _best_place(tree: Topology, target: Topology, broker: Node) -> AddStep:
    """At its neighbour in the target that is nearest to the others."""
    there = [other for other in target.neighbours(broker) if other in tree]
    return AddStep(broker, min(there, key=lambda to: (sum(len(tree.path(to, other)) for other in there), to)))


def _removals(tree: Topology, target: Topology) -> list[RemoveStep]:
    found: list[RemoveStep] = []
    while leaves := [broker for broker in tree.brokers if broker not in target and tree.is_leaf(broker)]:
        for broker in leaves:
            tree = apply(tree, RemoveStep(broker))
            found.append(RemoveStep(broker))
    return found
