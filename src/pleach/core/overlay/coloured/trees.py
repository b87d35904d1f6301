"""Trees as the root knows them, each broker with its parent, and what an operator's requests make of them.

Any tree may become any other in one recolouring, so requests that come together are carried out together: each is
judged on the tree that those before it leave behind. One that contradicts them does not fit any more, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, assert_never

from pleach.core.messages import (
    Node,
    OperatorRequest,
    ParentChange,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
)
from pleach.errors import TopologyError

Tree: TypeAlias = Mapping[Node, Node]  # the parent of each broker
NOBODY = ""  # the parent of the root


def requested(tree: Tree, asked: Node, request: OperatorRequest) -> dict[Node, Node]:
    """The tree that a request makes of this one; raises TopologyError where it does not fit."""
    match request:
        case RequestSwap(_, a, b, c):
            if a == c or not has_link(tree, b, c):
                raise TopologyError(f"{a}–{b}–{c} are no three brokers in a row; there is no link {b}–{c}")
            return exchanged(tree, (a, b), (a, c))
        case RequestExchange(_, path, cut):
            if not 0 <= cut < len(path) - 1:
                raise TopologyError(f"the way {'–'.join(path)} has no link after its broker {cut}")
            return exchanged(tree, (path[cut], path[cut + 1]), (path[0], path[-1]))
        case RequestAdd(_, to):
            return added(tree, asked, to)
        case RequestRemove(_, broker):
            return without(tree, broker)
        case RequestMove():
            raise TopologyError("in a coloured network clients do not move by request; they go where their broker goes")
        case _:
            assert_never(request)


def has_link(tree: Tree, x: Node, y: Node) -> bool:
    return x in tree and y in tree and (tree[x] == y or tree[y] == x)


def exchanged(tree: Tree, removed: tuple[Node, Node], joined: tuple[Node, Node]) -> dict[Node, Node]:
    """What hangs below the removed link hangs on the new one; on the way between them parents and children change."""
    if not has_link(tree, *removed):
        raise TopologyError(f"there is no link {removed[0]}–{removed[1]}; name one that the tree has")
    top = removed[0] if tree[removed[0]] == removed[1] else removed[1]
    inner = [end for end in joined if end in tree and top in upwards(tree, end)]
    outer = [end for end in joined if end in tree and end not in inner]
    if len(inner) != 1 or len(outer) != 1:
        ends = f"{joined[0]}–{joined[1]}"
        raise TopologyError(f"{removed[0]}–{removed[1]} does not lie between the ends of {ends}: no tree would be left")
    changed, parent = dict(tree), outer[0]
    for broker in upwards(tree, inner[0]):
        changed[broker] = parent
        parent = broker
        if broker == top:
            break
    return changed


def added(tree: Tree, broker: Node, to: Node) -> dict[Node, Node]:
    if broker in tree:
        raise TopologyError(f"{broker} is in the tree already")
    if to not in tree:
        raise TopologyError(f"{to} is not in the tree; name a broker that is")
    return {**tree, broker: to}


def without(tree: Tree, broker: Node) -> dict[Node, Node]:
    """Its children hang on its parent."""
    if broker not in tree:
        raise TopologyError(f"{broker} is not in the tree; name a broker that is")
    above = tree[broker]
    if above == NOBODY:
        raise TopologyError(f"{broker} is the root; the tree hangs on it")
    return {name: above if parent == broker else parent for name, parent in tree.items() if name != broker}


def upwards(tree: Tree, broker: Node) -> list[Node]:
    """The broker and all above it, the root last; ends where a fault has made it a cycle."""
    way: dict[Node, None] = {}
    while broker in tree and broker not in way:
        way[broker] = None
        broker = tree[broker]
    return list(way)


def height(tree: Tree) -> int:
    """Links from the root to the farthest broker."""
    depths: dict[Node, int] = {NOBODY: -1}
    for broker in tree:
        way = [each for each in upwards(tree, broker) if each not in depths]
        for each in reversed(way):
            depths[each] = depths.get(tree[each], -1) + 1
    return max(depths.values())


def is_tree(tree: Tree, root: Node) -> bool:
    """Whether every way upwards ends at this root."""
    return tree.get(root) == NOBODY and all(upwards(tree, broker)[-1] == root for broker in tree)


def moves_between(before: Tree, after: Tree) -> list[ParentChange]:
    moved = [ParentChange(b, after[b], b not in before) for b in sorted(after) if before.get(b) != after[b]]
    return [*moved, *(ParentChange(broker, NOBODY) for broker in sorted(before) if broker not in after)]


def moved(tree: Tree, moves: Iterable[ParentChange]) -> dict[Node, Node]:
    changed = dict(tree)
    for move in moves:
        if move.parent == NOBODY:
            changed.pop(move.broker, None)
        else:
            changed[move.broker] = move.parent
    return changed
