"""What every exchange of a link would save on a tree, exactly and for all flows at once: the ground of the search.

A new link u–v closes a cycle. All that hangs at a broker of the cycle stays there, so an event needs the cycle but for
one *gap* between two brokers that it touches (see `ledger.py`): the gap in which the missing link lies.

        0 ── 1 ── 2 ── 3        touched: 0 and 2. Without the new link 3–0, the gap 2·3·0 is spared;
        ╰┄┄┄┄ new ┄┄┄┄╯         without 0–1 or 1–2, the gap 0·1·2 is spared instead.

What the removal of a link saves is what its gap costs, less what the gap of the new link costs: one look per gap of
each kind of event, where `ledger.costs_without` walks along all lines. Tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import fsum
from typing import NamedTuple, TypeAlias

from pleach.core.optimise.cost import Costs, Flow
from pleach.core.overlay.plans.topology import Topology

Place: TypeAlias = int  # on a path, from 0
Link: TypeAlias = tuple[int, int]


class IndexedFlows(NamedTuple):
    """Flows and costs by the index of brokers in `names`. Who of a flow's brokers publishes does not matter."""

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    events: tuple[float, ...]
    processing: tuple[float, ...]
    communication: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, flows: Iterable[Flow], costs: Costs) -> IndexedFlows:
        names = costs.brokers
        index = {name: i for i, name in enumerate(names)}
        together: dict[tuple[int, ...], list[float]] = {}
        for flow in flows:
            together.setdefault(tuple(sorted(index[name] for name in flow.members)), []).append(flow.events)
        shared = {members: fsum(together[members]) for members in sorted(together) if len(members) > 1}
        return cls(
            names,
            tuple(shared),
            tuple(shared.values()),
            tuple(costs.processing[name] for name in names),
            tuple(tuple(0.0 if a == b else costs.of_link(a, b) for b in names) for a in names),
        )


class LinkMove(NamedTuple):
    """Exchange the link behind `place` of the path for one between its ends."""

    gain: float
    path: tuple[int, ...]
    place: Place


class IndexedTree:
    """A tree that changes: neighbours by index."""

    def __init__(self, tree: Topology, names: Sequence[str]) -> None:
        index = {name: i for i, name in enumerate(names)}
        self.around = [sorted(index[other] for other in tree.around[name]) for name in names]

    def exchange(self, move: LinkMove) -> None:
        path = move.path
        self.replace((path[move.place], path[move.place + 1]), (path[0], path[-1]))

    def replace(self, gone: Link, new: Link) -> None:
        a, b = gone
        self.around[a].remove(b)
        self.around[b].remove(a)
        self.join(*new)

    @property
    def links(self) -> list[Link]:
        return [(a, b) for a, others in enumerate(self.around) for b in others if a < b]

    def join(self, a: int, b: int) -> None:
        self.around[a] = sorted((*self.around[a], b))
        self.around[b] = sorted((*self.around[b], a))

    def more_excess(self, path: Sequence[int], place: Place, degree_max: int) -> int:
        """How many more neighbours above the limit there would be after an exchange: at the ends of both links."""
        total = 0
        for broker in {path[0], path[-1], path[place], path[place + 1]}:
            before = len(self.around[broker])
            comes, goes = broker in (path[0], path[-1]), broker in (path[place], path[place + 1])
            total += max(0, before + comes - goes - degree_max) - max(0, before - degree_max)
        return total

    def topology(self, names: Sequence[str]) -> Topology:
        return Topology.of(((names[a], names[b]) for a, b in self.links), names)

    def rooted(self, root: int) -> tuple[list[int], list[int]]:
        """Everyone's parent (the root's is itself), and an order in which parents come first."""
        parent = [-1] * len(self.around)
        parent[root] = root
        order = [root]
        for here in order:
            for there in self.around[here]:
                if parent[there] < 0:
                    parent[there] = here
                    order.append(there)
        return parent, order


def gains_on(path: Sequence[int], kinds: Iterable[tuple[int, float]], priced: IndexedFlows) -> list[float]:
    """What it saves to exchange each link of the path for the new one. A kind: touched places as bits, and events."""
    links = [*(priced.communication[a][b] for a, b in pairwise(path)), priced.communication[path[-1]][path[0]]]
    reach = list(accumulate(links, initial=0.0))  # along links only, to each place, and around
    work = list(accumulate((priced.processing[broker] for broker in path), initial=0.0))  # of all before each place
    around = reach[-1] + work[-1]
    steps = [0.0] * len(links)  # differences between the gains of neighbouring links
    for touched, events in kinds:
        places = [place for place in range(len(path)) if touched >> place & 1]
        first, last = places[0], places[-1]
        spared = around - (reach[last] - reach[first]) - (work[last + 1] - work[first])
        for a, b in pairwise(places):
            saved = events * (reach[b] - reach[a] + work[b] - work[a + 1] - spared)
            steps[a] += saved
            steps[b] -= saved
    return list(accumulate(steps))[: len(path) - 1]


class TreeView:
    """The tree as seen from one broker: the paths to all others, and what touches them."""

    def __init__(self, growth: IndexedTree, root: int, priced: IndexedFlows) -> None:
        self._priced = priced
        self._parent, self._order = growth.rooted(root)
        self._root = root

    def path(self, end: int) -> tuple[int, ...]:
        """From the root."""
        back = [end]
        while back[-1] != self._root:
            back.append(self._parent[back[-1]])
        return tuple(reversed(back))

    def kinds(self, path: Sequence[int]) -> list[tuple[int, float]]:
        """Events that touch the same places of the path, two or more, together: others are served by any tree alike."""
        place = dict(zip(path, range(len(path)), strict=True))
        bit = [0] * len(self._order)
        for broker in self._order:
            bit[broker] = 1 << place[broker] if broker in place else bit[self._parent[broker]]
        found: dict[int, float] = {}
        for members, events in zip(self._priced.members, self._priced.events, strict=True):
            touched = 0
            for member in members:
                touched |= bit[member]
            if touched & (touched - 1):
                found[touched] = found.get(touched, 0.0) + events
        return list(found.items())

    def gains(self, path: Sequence[int]) -> list[float]:
        return gains_on(path, self.kinds(path), self._priced)
