"""Exact saving of a link exchange, from the ledgers of the brokers on its cycle.

A broker's ledger has for each recent event its sides: the neighbours that the event came from and went to, and the
broker's own clients (traffic_log.py). S1's (5.12) sums estimates over pairs of brokers, which is not the cost of the
tree: exchanges that lower it may raise the cost and be undone by the next. The sum of ledgers is the cost (5.3).

      B0 ── B1 ── B2 ── B3        All that hangs at a broker of the cycle stays there, whichever link is removed.
      :     :           :         So the cost of an event differs only by the stretch of the cycle that it needs:
      ○     ○           ○         from the first broker to the last that it *touches*.

An event touches a broker if it goes to, or comes from, its clients or a neighbour off the cycle. The broker knows that
from its ledger. A motion collects the touched brokers of each event along the path; at its end the stretches, and so
the costs without each of the links, are known. Ledgers of several brokers hold the same events, selected by the hash of
their ids, so that they can be combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum
from typing import NamedTuple, TypeAlias, TypeVar

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs

T = TypeVar("T")

LOCAL = ""  # the side of a broker's own clients; no broker has this name
Sides: TypeAlias = frozenset[Node]  # where an event came from and went to: neighbours, LOCAL
Touched: TypeAlias = frozenset[int]  # places on the path


class Stretch(NamedTuple):
    """Events that touch the same brokers of a cycle."""

    touched: Touched
    events: float


def opened(path: Sequence[T], removed: int) -> tuple[T, ...]:
    """The cycle as a line without the link behind place `removed`; the last one is the new link itself."""
    return (*path[removed + 1 :], *path[: removed + 1])


def costs_without(path: Sequence[Node], found: Sequence[Stretch], costs: Costs) -> list[float]:
    """The cost of the events on the cycle without each of its links, the new one last."""
    return [_cost_on_line(path, removed, found, costs) for removed in range(len(path))]


def _cost_on_line(path: Sequence[Node], removed: int, found: Sequence[Stretch], costs: Costs) -> float:
    line = opened(range(len(path)), removed)  # places of the path, in the order of the line
    total = []
    for touched, events in found:
        used = _used(line, touched)
        total += [events * costs.processing[path[place]] for place in used]
        total += [events * costs.of_link(path[a], path[b]) for a, b in pairwise(used)]
    return fsum(total)


def _used(line: Sequence[int], touched: Touched) -> Sequence[int]:
    """The part of the line from the first touched place to the last."""
    where = [i for i, place in enumerate(line) if place in touched]
    return line[where[0] : where[-1] + 1]
