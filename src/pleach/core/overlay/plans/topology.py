"""A tree of brokers as a value: links, neighbours, paths.

`Topology.of` validates that links form a tree. Steps (`steps.py`) keep a tree a tree (S0 §V, property 1), so nothing is
validated twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple, TypeAlias

from pleach.core.messages import Node
from pleach.errors import CutOffError, CycleError, TopologyError

BROKERS_MAX = 10_000
NAME_BYTES_MAX = 255
NAMES_SHOWN_MAX = 20

Link: TypeAlias = tuple[Node, Node]  # the smaller name first (`link`)
Neighbourhood: TypeAlias = Mapping[Node, frozenset[Node]]


def link(a: Node, b: Node) -> Link:
    """The canonical form of a link, which has no direction."""
    return (a, b) if a < b else (b, a)


class _Rooted(NamedTuple):
    """A rooted tree: the parent and depth of each broker."""

    up: Mapping[Node, Node]
    depth: Mapping[Node, int]

    def way(self, start: Node, end: Node) -> tuple[Node, ...]:
        """Ascend from both ends, the deeper one first, until they meet."""
        head, tail = [start], [end]
        while head[-1] != tail[-1]:
            lower = head if self.depth[head[-1]] >= self.depth[tail[-1]] else tail
            lower.append(self.up[lower[-1]])
        return (*head, *reversed(tail[:-1]))


@dataclass(frozen=True, repr=False)
class Topology:
    """Create with `Topology.of`; equal trees are equal values."""

    around: Neighbourhood

    @classmethod
    def of(cls, links: Iterable[tuple[Node, Node]], brokers: Iterable[Node] = ()) -> Topology:
        """The tree of these links. `brokers`: needed only for a tree of one broker, which has no links."""
        around: dict[Node, set[Node]] = {broker: set() for broker in brokers}
        for a, b in links:
            _refuse_superfluous(a, b, around)
            around.setdefault(a, set()).add(b)
            around.setdefault(b, set()).add(a)
        _check_names(around)
        topology = cls({broker: frozenset(around[broker]) for broker in sorted(around)})
        _check_connected(topology)
        return topology

    def __hash__(self) -> int:
        return hash(frozenset(self.around.items()))

    def __repr__(self) -> str:
        return f"Topology({', '.join(f'{a}–{b}' for a, b in self.links) or ', '.join(self.brokers)})"

    def __contains__(self, broker: object) -> bool:
        return broker in self.around

    def __len__(self) -> int:
        return len(self.around)

    @cached_property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(sorted(self.around))

    @cached_property
    def links(self) -> tuple[Link, ...]:
        return tuple((a, b) for a in self.brokers for b in sorted(self.around[a]) if a < b)

    def neighbours(self, broker: Node) -> tuple[Node, ...]:
        return tuple(sorted(self._known(broker)))

    def has_link(self, a: Node, b: Node) -> bool:
        return b in self.around.get(a, ())

    def is_leaf(self, broker: Node) -> bool:
        return len(self._known(broker)) == 1

    def path(self, start: Node, end: Node) -> tuple[Node, ...]:
        """The brokers on the path, including both ends."""
        self.check(start, end)
        return self._rooted.way(start, end)

    @cached_property
    def _rooted(self) -> _Rooted:
        rooted, _ = _walk(self.around, next(iter(self.around)))
        return rooted

    def check(self, *brokers: Node) -> None:
        """Raises TopologyError for the first that is not in this tree."""
        for broker in brokers:
            if broker not in self.around:
                raise stranger(broker, self.brokers)

    def _known(self, broker: Node) -> frozenset[Node]:
        self.check(broker)
        return self.around[broker]


# Validation ------------------------------------------------------------------------------------------------------


def _refuse_superfluous(a: Node, b: Node, around: Mapping[Node, set[Node]]) -> None:
    if a == b:
        raise TopologyError(f"link {a}–{b} joins a broker to itself; a link needs two brokers")
    if b in around.get(a, ()):
        raise TopologyError(f"link {a}–{b} is there twice; leave one out")


def _check_names(around: Mapping[Node, set[Node]]) -> None:
    if not around:
        raise TopologyError("a tree has at least one broker; give links, or the name of the only broker")
    if len(around) > BROKERS_MAX:
        raise TopologyError(f"{len(around):,} brokers; a tree has at most {BROKERS_MAX:,}")
    for name in around:
        if flaw := flaw_of_name(name):
            raise TopologyError(flaw)


def flaw_of_name(name: Node) -> str:
    """The error in a broker's name; empty if it is valid."""
    if name and name.isprintable() and len(name.encode()) <= NAME_BYTES_MAX:
        return ""
    return f"{name[:40]!r} is no name of a broker; 1 to {NAME_BYTES_MAX} bytes of printable text"


def _check_connected(topology: Topology) -> None:
    """Cycles first; without one, too few links leave a part disconnected."""
    parts: list[tuple[Node, ...]] = []
    seen: set[Node] = set()
    for broker in topology.brokers:
        if broker in seen:
            continue
        rooted, closing = _walk(topology.around, broker)
        if closing is not None:
            raise CycleError(rooted.way(*closing))
        parts.append(tuple(sorted(rooted.depth)))
        seen |= rooted.depth.keys()
    if len(parts) > 1:
        part, *rest = sorted(parts, key=lambda part: (len(part), part))
        raise CutOffError(part, rest[-1])


def _walk(around: Neighbourhood, root: Node) -> tuple[_Rooted, Link | None]:
    """The part reachable from `root`, breadth-first; and a link that closes a cycle, if any."""
    up, depth = {root: root}, {root: 0}
    closing: Link | None = None
    queue = deque([root])
    while queue:
        here = queue.popleft()
        for there in sorted(around[here]):
            if there not in depth:
                up[there], depth[there] = here, depth[here] + 1
                queue.append(there)
            elif there != up[here]:
                closing = closing or link(here, there)
    return _Rooted(up, depth), closing


def stranger(name: Node, brokers: Collection[Node]) -> TopologyError:
    """The error for an unknown broker."""
    return TopologyError(f"{name!r} is not a broker of this tree{_instead(name, tuple(sorted(brokers)))}")


def _instead(wrong: Node, brokers: tuple[Node, ...]) -> str:
    """The end of an error message about a wrong name: the similar one, or all names."""
    close = get_close_matches(wrong, brokers, n=1)
    more = ", …" if len(brokers) > NAMES_SHOWN_MAX else ""
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(brokers[:NAMES_SHOWN_MAX])}{more}"
