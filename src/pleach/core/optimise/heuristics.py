"""Evaluation of a possible link (S1 §5.5.2): whether the first broker of a path should ask for a link to the last one.

An evaluation is one broker's guess from summaries; ledgers decide (`settling.py`). CI compares the direct link with the
path (5.11); local MST compares it with the heaviest link of the path. S1's consensus (5.12 to 5.14), which ledgers
replace, is in the lab (`lab/improve/decisions.py`).

    C(i, j) = c(i, j)                                               where i and j are neighbours         (5.11)
            = (I(i,j) - I(i,k,j)) / I(i,j) · (C(i, k) + p_k) + c(k, j)   else; k is j's neighbour towards i

Events that k consumes anyway cost nothing more on their way to j. Where i and j have no events in common the share is 1
(S1 does not say).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from pleach.core.messages import Node
from pleach.core.overlay.plans.topology import Link, link


class LinkExchangeChoice(NamedTuple):
    """Exchange `remove` for `add`. `gain`: the expected saving."""

    remove: Link
    add: Link
    gain: float


class CostView(Protocol):
    """Costs and common traffic as somebody knows them: brokers estimate, references know."""

    def common(self, *brokers: Node) -> float:
        """I(S): events that all of them consume or publish."""
        ...

    def processing(self, broker: Node) -> float: ...

    def communication(self, a: Node, b: Node) -> float: ...


def cycle_links(path: Sequence[Node]) -> tuple[Link, ...]:
    """The links of the path, then the new one between its ends."""
    return (*(link(a, b) for a, b in pairwise(path)), link(path[-1], path[0]))


def is_cheaper_than_path(path: Sequence[Node], view: CostView) -> bool:
    """CI (5.11): the ends have events in common, and the direct link costs less than the path."""
    start, end = path[0], path[-1]
    return view.common(start, end) > 0 and view.communication(start, end) < indirect_costs(path, view)[-1]


def is_cheaper_than_a_link(path: Sequence[Node], view: CostView) -> bool:
    """Local MST: the new link is not the heaviest of the cycle."""
    *others, new = (view.communication(a, b) for a, b in (*pairwise(path), (path[-1], path[0])))
    return new < max(others)


def indirect_costs(line: Sequence[Node], view: CostView) -> list[float]:
    """(5.11) from the first broker of the line to each of the others, nearest first."""
    start = line[0]
    costs = [view.communication(start, line[1])] if len(line) > 1 else []
    for via, there in pairwise(line[1:]):
        both = view.common(start, there)
        share = 1.0 - view.common(start, via, there) / both if both else 1.0
        costs.append(share * (costs[-1] + view.processing(via)) + view.communication(via, there))
    return costs
