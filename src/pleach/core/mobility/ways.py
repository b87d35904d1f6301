"""The path through the tree that a movement takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pleach.core.messages import Node


def way(neighbours: Callable[[Node], Iterable[Node]], start: Node, end: Node) -> list[Node]:
    """All brokers from start to end; empty if there is no path. The other links need not form a tree at the moment."""
    came_from = {start: start}
    waiting = deque([start])
    while waiting and end not in came_from:
        here = waiting.popleft()
        for there in sorted(neighbours(here)):
            if there not in came_from:
                came_from[there] = here
                waiting.append(there)
    if end not in came_from:
        return []
    found = [end]
    while found[-1] != start:
        found.append(came_from[found[-1]])
    return found[::-1]
