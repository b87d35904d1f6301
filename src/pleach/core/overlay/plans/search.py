"""Search for few swaps that turn one tree into another.

A missing link has a *path* in the tree, and exists when that path is one hop. A swap of a–b–c to a–c–b shortens a path
by one if it contains a, b and c, and lengthens it by one if it contains a–b and not c; other paths keep their length.
So the *gain* of a swap, the total by which it shortens all paths, is a count:

    gain(a, b, c) = 2 · (paths over a, b, c) − (paths over a–b)

Rule 1: a wanted link is never removed. So links that both trees have stay, and the search terminates. (Without this
        rule one swap could be saved for one in 3,500 pairs of trees of 6 brokers, and for none of 5.)
Rule 2: paths that share no link are searched separately: no swap for one changes the other.

`descend` takes the swaps with the highest gain; where none gains, it exchanges one link (S1 Theorem 2). It terminates,
since each iteration leaves fewer missing links, or as many with shorter paths. `follow` looks for fewer swaps by beam
search: its result is good, but not proved minimal. Proved are plans with `least_swaps`, among them all where one link
is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from pleach.core.messages import Node
from pleach.core.overlay.plans.compose import slides
from pleach.core.overlay.plans.steps import SwapStep, apply
from pleach.core.overlay.plans.topology import Link, Topology, link

WIDTH_MAX = 64  # width of the beam; more hardly finds shorter plans
EFFORT = 8_000  # width × (missing links)²: about a second for 50 missing links

Way: TypeAlias = tuple[Node, ...]
Triple: TypeAlias = tuple[Node, Node, Node]


def swaps_towards(tree: Topology, wanted: Iterable[Link], *, width: int | None = None) -> list[SwapStep]:
    """Swaps after which the tree has all `wanted` links; these must be free of cycles.

    `width`: of the beam, by default as many trees as take about a second; 1: only `descend`.
    """
    goal = frozenset(wanted)
    found: list[SwapStep] = []
    for missing, part in regions(tree, goal):
        swaps = descend(part, missing, goal)
        if len(swaps) > least_swaps(part, missing):
            kept = min(WIDTH_MAX, EFFORT // len(missing) ** 2) if width is None else width
            swaps = follow(part, missing, goal, width=kept, swaps_max=len(swaps) - 1) or swaps
        found += swaps
    return found


def least_swaps(tree: Topology, missing: Iterable[Link]) -> int:
    """A lower bound: a swap adds one link, and shortens a path by one."""
    ways = _ways(tree, missing)
    return max([len(ways), *(len(way) - 2 for way in ways)])


def regions(tree: Topology, goal: Collection[Link]) -> list[tuple[tuple[Link, ...], Topology]]:
    """Groups of missing links, each with the part of the tree that has their paths; these parts share no link."""
    groups: list[tuple[list[Link], set[Link]]] = []  # missing links, and the links of their paths
    for missing in sorted(goal):
        if tree.has_link(*missing):
            continue
        members, over = [missing], {link(a, b) for a, b in pairwise(tree.path(*missing))}
        apart = []
        for group in groups:
            if over.isdisjoint(group[1]):
                apart.append(group)
            else:
                members, over = group[0] + members, group[1] | over
        groups = [*apart, (members, over)]
    return [
        (tuple(sorted(members)), Topology.of(sorted(over)))
        for members, over in sorted(groups, key=lambda group: min(group[0]))
    ]


# Gains -----------------------------------------------------------------------------------------------------------


def _ways(tree: Topology, missing: Iterable[Link]) -> list[Way]:
    """The paths of links that are still missing."""
    return [tree.path(*pair) for pair in missing if not tree.has_link(*pair)]


def _gains(ways: Iterable[Way], goal: Collection[Link]) -> dict[Triple, int]:
    """The gain of every swap that shortens a path and removes no wanted link."""
    over: Counter[tuple[Node, Node]] = Counter()
    along: Counter[Triple] = Counter()
    for way in ways:
        for direction in (way, way[::-1]):
            over.update(pairwise(direction))
            along.update(zip(direction, direction[1:], direction[2:], strict=False))
    return {(a, b, c): 2 * count - over[a, b] for (a, b, c), count in along.items() if link(a, b) not in goal}


# Greedy descent --------------------------------------------------------------------------------------------------


def descend(tree: Topology, missing: Sequence[Link], goal: Collection[Link]) -> list[SwapStep]:
    found: list[SwapStep] = []
    while ways := _ways(tree, missing):
        swaps = _best_apart(_gains(ways, goal)) or _exchange(ways, goal)
        for swap in swaps:
            tree = apply(tree, swap)
        found += swaps
    return found


def _best_apart(gains: dict[Triple, int]) -> list[SwapStep]:
    """The swaps with the highest positive gain that touch disjoint brokers, so that their gains are independent."""
    most = max([1, *gains.values()])
    chosen: list[SwapStep] = []
    busy: set[Node] = set()
    for swap in sorted(swap for swap, gain in gains.items() if gain == most):
        if busy.isdisjoint(swap):
            chosen.append(SwapStep(*swap))
            busy.update(swap)
    return chosen


def _exchange(ways: Iterable[Way], goal: Collection[Link]) -> list[SwapStep]:
    """Join the ends of a shortest path, with a link of it that is not wanted.

    Such a link exists, since wanted links close no cycle. Intermediate links are not wanted: that path would be
    shorter.
    """
    way = min(ways, key=lambda way: (len(way), way))
    return slides(way, next(pair for pair in pairwise(way) if link(*pair) not in goal))


# Beam search -----------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """A tree that some swaps lead to; the last swap is applied lazily, since most trees are discarded."""

    left: int  # hops by which all paths together are too long
    swaps: tuple[Triple, ...]
    changed: frozenset[Link]  # symmetric difference of links to the first tree
    before: Topology

    @property
    def rank(self) -> tuple[int, tuple[Triple, ...]]:
        return (self.left, self.swaps)

    def drawn(self) -> Topology:
        return apply(self.before, SwapStep(*self.swaps[-1])) if self.swaps else self.before


def follow(
    tree: Topology, missing: Sequence[Link], goal: Collection[Link], *, width: int, swaps_max: int
) -> list[SwapStep]:
    """At most `swaps_max` swaps that lead to all missing links; empty if none were found."""
    level = [_Seen(sum(len(way) - 2 for way in _ways(tree, missing)), (), frozenset(), tree)]
    known = {level[0].changed}
    for _ in range(swaps_max if width > 1 else 0):
        reached: list[_Seen] = []
        for seen in level:
            reached += _beyond(seen, missing, goal, known)
        level = sorted(reached, key=lambda seen: seen.rank)[:width]
        if level and not level[0].left:
            return [SwapStep(*swap) for swap in level[0].swaps]
    return []


def _beyond(seen: _Seen, missing: Sequence[Link], goal: Collection[Link], known: set[frozenset[Link]]) -> list[_Seen]:
    """The trees one swap further that were not seen before."""
    tree = seen.drawn()
    found = []
    for swap, gain in _gains(_ways(tree, missing), goal).items():
        a, b, c = swap
        changed = seen.changed ^ {link(a, b), link(a, c)}
        if changed not in known:
            known.add(changed)
            found.append(_Seen(seen.left - gain, (*seen.swaps, swap), changed, tree))
    return found
