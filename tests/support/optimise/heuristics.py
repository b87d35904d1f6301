"""S1's heuristics with their consensus (§5.4, §5.5), one path at a time: the reference for `lab/improve/decisions.py`.

*Evaluation*, at one broker: would a link to the other end of this path be good? *Consensus*, at each broker of the
path: what does the cycle cost me without each of its links? Answers are added up along the path; the link with the
least sum goes, unless it is the new one (5.14).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

from pleach.core.messages import Node
from pleach.core.optimise.heuristics import (
    CostView,
    LinkExchangeChoice,
    cycle_links,
    indirect_costs,
    is_cheaper_than_a_link,
    is_cheaper_than_path,
)
from pleach.core.optimise.ledger import opened


class Heuristic(Protocol):
    @property
    def name(self) -> str: ...

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        """Whether the first broker of the path wants a link to the last one."""
        ...

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        """What the cycle costs `me` without each link of the path, and without the new one."""
        ...


def decided(path: Sequence[Node], totals: Sequence[float]) -> LinkExchangeChoice | None:
    """(5.14); of equal links the one that is there stays."""
    *others, new = cycle_links(path)
    best = min(range(len(others)), key=totals.__getitem__)
    gain = totals[-1] - totals[best]
    return LinkExchangeChoice(others[best], new, gain) if gain > 0 else None


def removal_costs(me: Node, path: Sequence[Node], view: CostView) -> tuple[float, ...]:
    """(5.12): what the cycle costs `me` without each of its links: those of the path, the new one last."""
    return tuple(_cost_on_line(me, opened(path, removed), view) for removed in range(len(path)))


def _cost_on_line(me: Node, line: Sequence[Node], view: CostView) -> float:
    place = line.index(me)
    total = 0.0
    for side in (line[place:], line[place::-1]):
        for other, cost in zip(side[1:], indirect_costs(side, view), strict=True):
            total += view.common(me, other) * cost
    return total


class CostAndInterest:
    """CI, §5.5."""

    name = "ci"

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        return is_cheaper_than_path(path, view)

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        return removal_costs(me, path, view)


@dataclass(frozen=True)
class LocalSpanningTree:
    """On every cycle the heaviest link goes. A broker answers for the link that follows it on the cycle."""

    name: str
    weigh: Callable[[Node, Node, CostView], float]
    promises: Callable[[Sequence[Node], CostView], bool]

    def is_promising(self, path: Sequence[Node], view: CostView) -> bool:
        return self.promises(path, view)

    def removal_costs(self, me: Node, path: Sequence[Node], view: CostView) -> Sequence[float]:
        place = path.index(me)
        around = [*pairwise(path), (path[-1], path[0])]
        mine = self.weigh(*around[place], view)
        return [0.0 if removed == place else mine for removed in range(len(path))]


def _has_traffic(path: Sequence[Node], view: CostView) -> bool:
    return view.common(path[0], path[-1]) > 0


LOCAL_MST = LocalSpanningTree("lmst", lambda a, b, view: view.communication(a, b), is_cheaper_than_a_link)
LOCAL_MIT = LocalSpanningTree("lmit", lambda a, b, view: -view.common(a, b), _has_traffic)

HEURISTICS: MappingProxyType[str, Heuristic] = MappingProxyType(
    {each.name: each for each in (CostAndInterest(), LOCAL_MST, LOCAL_MIT)}
)
