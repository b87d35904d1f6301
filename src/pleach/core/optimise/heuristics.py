"""Which link to exchange for which (S1 §5.4, §5.5): the Cost and Interest heuristic, local MST, local MIT.

A heuristic answers two questions. *Evaluation*, at one broker: would a link to the other end of this path be good?
*Consensus*, at each broker of the path in turn: what does the cycle cost me without each of its links? Answers are
added up along the path; the link with the least sum goes, unless it is the new one (5.14).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, Protocol

from pleach.core.messages import Node
from pleach.core.optimise.indirect import CostView, indirect_costs, removal_costs
from pleach.core.overlay.plans.topology import Link, link


class LinkExchangeChoice(NamedTuple):
    """Exchange `remove` for `add`. The gain is what the heuristic believes to save, in its own unit."""

    remove: Link
    add: Link
    gain: float


class Heuristic(Protocol):
    @property
    def name(self) -> str: ...

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        """Whether the first broker of the path wants a link to the last one."""
        ...

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        """What the cycle costs `me` without each link of the path, and without the new one."""
        ...


def cycle_links(path: Sequence[Node]) -> tuple[Link, ...]:
    return (*(link(a, b) for a, b in pairwise(path)), link(path[-1], path[0]))


def decided(path: Sequence[Node], totals: Sequence[float]) -> LinkExchangeChoice | None:
    """(5.14), among equals in favour of what is there."""
    *others, new = cycle_links(path)
    best = min(range(len(others)), key=totals.__getitem__)
    gain = totals[-1] - totals[best]
    return LinkExchangeChoice(others[best], new, gain) if gain > 0 else None


class CostAndInterest:
    """CI, §5.5."""

    name = "ci"

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        """(5.11): the direct link costs less than the way over the others."""
        start, end = path[0], path[-1]
        return view.common(start, end) > 0 and view.communication(start, end) < indirect_costs(path, view)[-1]

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        return removal_costs(me, path, view)


@dataclass(frozen=True)
class LocalSpanningTree:
    """On every cycle the heaviest link goes. A broker answers for the link that follows it on the cycle."""

    name: str
    weigh: Callable[[Node, Node, CostView], float]
    hopes: Callable[[Sequence[Node], CostView], bool]

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        return self.hopes(path, view)

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        place = path.index(me)
        mine = self.weigh(*_around(path)[place], view)
        return [0.0 if removed == place else mine for removed in range(len(path))]


def _is_cheaper_than_one(path: Sequence[Node], view: CostView) -> bool:
    """What links cost is known from the broadcast: the request will succeed."""
    *others, new = (view.communication(a, b) for a, b in _around(path))
    return new < max(others)


def _has_traffic(path: Sequence[Node], view: CostView) -> bool:
    """What two others have in common is known to them alone; the consensus tells."""
    return view.common(path[0], path[-1]) > 0


LOCAL_MST = LocalSpanningTree("lmst", lambda a, b, view: view.communication(a, b), _is_cheaper_than_one)
LOCAL_MIT = LocalSpanningTree("lmit", lambda a, b, view: -view.common(a, b), _has_traffic)


def _around(path: Sequence[Node]) -> list[tuple[Node, Node]]:
    """The links of the cycle, each as its first broker sees it."""
    return [*pairwise(path), (path[-1], path[0])]


HEURISTICS: MappingProxyType[str, Heuristic] = MappingProxyType(
    {each.name: each for each in (CostAndInterest(), LOCAL_MST, LOCAL_MIT)}
)
