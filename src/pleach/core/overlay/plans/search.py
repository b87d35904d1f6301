"""Few swaps that turn one tree into another.

Wanted are links; one that is missing has a *way* in the tree instead, and is there when that way is one hop. A swap of
a–b–c to a–c–b makes a way shorter by one if it leads over a, b and c, and longer by one if it leads over a–b and not on
to c; other ways keep their length. So the *gain* of a swap, by how much it shortens all ways together, is a count:

    gain(a, b, c) = 2 · (ways over a, b, c) − (ways over a–b)

Rule 1: a link that is wanted is never removed. So what both trees have stays untouched, and the search comes to an end.
        (Of all pairs of trees of 6 brokers, one in 3,500 could do with one swap less without this rule; of 5, none.)
Rule 2: ways that share no link are searched apart: no swap for the one changes the other.

`descend` always takes the swaps with the highest gain; where none gains anything, it exchanges one link (S1 Theorem 2).
That ends, since with every turn either fewer links are missing, or as many and their ways are shorter. `follow` looks
for fewer swaps than that and keeps the best trees of each length in view (a beam search): what it finds is good, not
proved to be the least. Proved are plans with `least_swaps`, among them all where one link is missing.
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

WIDTH_MAX = 64  # trees kept in view: more finds hardly anything shorter
EFFORT = 8_000  # trees kept in view × (missing links)²: about a second for 50 missing links

Way: TypeAlias = tuple[Node, ...]
Triple: TypeAlias = tuple[Node, Node, Node]


def swaps_towards(tree: Topology, wanted: Iterable[Link], *, width: int | None = None) -> list[SwapStep]:
    """Swaps after which the tree has all `wanted` links; these must be free of cycles.

    `width`: how many trees are kept in view, by default as many as take about a second; with 1, `descend` does it all.
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
    """No plan has fewer: a swap brings one link, and makes a way shorter by one."""
    ways = _ways(tree, missing)
    return max([len(ways), *(len(way) - 2 for way in ways)])


def regions(tree: Topology, goal: Collection[Link]) -> list[tuple[tuple[Link, ...], Topology]]:
    """The missing links in groups, each with the part of the tree where their ways lie; these share no link."""
    groups: list[tuple[list[Link], set[Link]]] = []  # missing links, and the links of their ways
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
    """The ways of those that are still missing."""
    return [tree.path(*pair) for pair in missing if not tree.has_link(*pair)]


def _gains(ways: Iterable[Way], goal: Collection[Link]) -> dict[Triple, int]:
    """The gain of every swap that makes some way shorter and removes no wanted link."""
    over: Counter[tuple[Node, Node]] = Counter()
    along: Counter[Triple] = Counter()
    for way in ways:
        for direction in (way, way[::-1]):
            over.update(pairwise(direction))
            along.update(zip(direction, direction[1:], direction[2:], strict=False))
    return {(a, b, c): 2 * count - over[a, b] for (a, b, c), count in along.items() if link(a, b) not in goal}


# One tree in view ------------------------------------------------------------------------------------------------


def descend(tree: Topology, missing: Sequence[Link], goal: Collection[Link]) -> list[SwapStep]:
    found: list[SwapStep] = []
    while ways := _ways(tree, missing):
        swaps = _best_apart(_gains(ways, goal)) or _exchange(ways, goal)
        for swap in swaps:
            tree = apply(tree, swap)
        found += swaps
    return found


def _best_apart(gains: dict[Triple, int]) -> list[SwapStep]:
    """The swaps that gain most, if anything, and touch disjoint brokers: none changes what another one gains."""
    most = max([1, *gains.values()])
    chosen: list[SwapStep] = []
    busy: set[Node] = set()
    for swap in sorted(swap for swap, gain in gains.items() if gain == most):
        if busy.isdisjoint(swap):
            chosen.append(SwapStep(*swap))
            busy.update(swap)
    return chosen


def _exchange(ways: Iterable[Way], goal: Collection[Link]) -> list[SwapStep]:
    """Make the ends of a shortest way neighbours, with a link of it that is not wanted.

    There is one, since wanted links close no cycle. What it joins in between is not wanted: that way would be shorter.
    """
    way = min(ways, key=lambda way: (len(way), way))
    return slides(way, next(pair for pair in pairwise(way) if link(*pair) not in goal))


# Several trees in view -------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """A tree that some swaps lead to, one swap before it is drawn: most are not worth it."""

    left: int  # the hops that all ways together are too long
    swaps: tuple[Triple, ...]
    changed: frozenset[Link]  # links that only one of this tree and the first one has
    before: Topology

    @property
    def rank(self) -> tuple[int, tuple[Triple, ...]]:
        return (self.left, self.swaps)

    def drawn(self) -> Topology:
        return apply(self.before, SwapStep(*self.swaps[-1])) if self.swaps else self.before


def follow(
    tree: Topology, missing: Sequence[Link], goal: Collection[Link], *, width: int, swaps_max: int
) -> list[SwapStep]:
    """At most `swaps_max` swaps that lead to all missing links; none if none were found."""
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
    """The trees one swap further that have not been in view before."""
    tree = seen.drawn()
    found = []
    for swap, gain in _gains(_ways(tree, missing), goal).items():
        a, b, c = swap
        changed = seen.changed ^ {link(a, b), link(a, c)}
        if changed not in known:
            known.add(changed)
            found.append(_Seen(seen.left - gain, (*seen.swaps, swap), changed, tree))
    return found
