"""What it costs to reach a broker over others (S1 §5.5.2), and what a cycle costs without one of its links (§5.5.3).

    C(i, j) = c(i, j)                                               where i and j are neighbours         (5.11)
            = (I(i,j) - I(i,k,j)) / I(i,j) · (C(i, k) + p_k) + c(k, j)   else; k is j's neighbour towards i

What k consumes anyway costs nothing more on its way to j. Where i and j have no events in common, k has none with both
of them: the share is 1 then (S1 does not say).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from pleach.core.messages import Node

T = TypeVar("T")


class CostView(Protocol):
    """What somebody knows of costs and common traffic; brokers estimate, references know."""

    def common(self, *brokers: Node) -> float:
        """I(S): events that all of them consume or publish."""
        ...

    def processing(self, broker: Node) -> float: ...

    def communication(self, a: Node, b: Node) -> float: ...


def indirect_costs(line: Sequence[Node], view: CostView) -> list[float]:
    """(5.11) from the first broker of the line to each of the others, nearest first."""
    start = line[0]
    costs = [view.communication(start, line[1])] if len(line) > 1 else []
    for via, there in pairwise(line[1:]):
        share = _share_apart(start, via, there, view)
        costs.append(share * (costs[-1] + view.processing(via)) + view.communication(via, there))
    return costs


def _share_apart(start: Node, via: Node, there: Node, view: CostView) -> float:
    """Of the events that both ends consume, those that the broker before the end does not."""
    both = view.common(start, there)
    return 1.0 - view.common(start, via, there) / both if both else 1.0


def removal_costs(me: Node, path: Sequence[Node], view: CostView) -> tuple[float, ...]:
    """(5.12): what the cycle costs `me` without each of its links: those of the path, the new one last."""
    return tuple(_cost_on_line(me, opened(path, removed), view) for removed in range(len(path)))


def opened(path: Sequence[T], removed: int) -> tuple[T, ...]:
    """The cycle as a line, once the link behind place `removed` is gone; the last one is the new link itself."""
    return (*path[removed + 1 :], *path[: removed + 1])


def _cost_on_line(me: Node, line: Sequence[Node], view: CostView) -> float:
    place = line.index(me)
    total = 0.0
    for side in (line[place:], line[place::-1]):
        for other, cost in zip(side[1:], indirect_costs(side, view), strict=True):
            total += view.common(me, other) * cost
    return total
