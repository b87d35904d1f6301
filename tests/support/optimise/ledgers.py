"""Ledgers put together along a path, as a motion does it: the reference for gains that are computed otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.heuristics import cycle_links
from pleach.core.optimise.ledger import Sides, Stretch, Touched, costs_without


def gathered_along(path: Sequence[Node], ledgers: Sequence[Mapping[str, Sides]]) -> dict[str, Touched]:
    """By event, the places of the path that it touches; `ledgers` in the order of the path."""
    touches: dict[str, Touched] = {}
    for place, ledger in enumerate(ledgers):
        beside = frozenset(path[i] for i in (place - 1, place + 1) if 0 <= i < len(path))
        for event, sides in ledger.items():
            if sides - beside:
                touches[event] = touches.get(event, frozenset()) | {place}
    return touches


def stretches(touches: Mapping[str, Touched]) -> list[Stretch]:
    """Events that touch the same places, counted together."""
    return [Stretch(touched, events) for touched, events in Counter(touches.values()).items()]


def savings(path: Sequence[Node], found: Sequence[Stretch], costs: Costs) -> dict[tuple[Node, Node], float]:
    """The saving of each link of the path if it is exchanged for the new one."""
    *without, now = costs_without(path, found, costs)
    return {each: now - then for each, then in zip(cycle_links(path), without, strict=False)}
