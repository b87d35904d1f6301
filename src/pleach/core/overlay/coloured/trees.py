"""Trees as parent maps, and the effect of operators' requests on them.

One recolouring can turn any tree into any other, so pending requests are carried out together: each is applied to the
result of those before it. A request that does not fit is refused.
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
    """The tree after a request; raises TopologyError where it does not fit."""
    match request:
        case RequestSwap(_, a, b, c):
            if a == c or not has_link(tree, b, c):
                raise TopologyError(f"{a}–{b}–{c} are no three brokers in a row; there is no link {b}–{c}")
            return exchanged(tree, (a, b), (a, c))
        case RequestExchange(_, path, cut):
            if not 0 <= cut < len(path) - 1:
                raise TopologyError(f"the path {'–'.join(path)} has no link after its broker {cut}")
            return exchanged(tree, (path[cut], path[cut + 1]), (path[0], path[-1]))
        case RequestAdd(_, to):
            return added(tree, asked, to)
        case RequestRemove(_, broker):
            return without(tree, broker)
        case RequestMove():
            raise TopologyError("clients of a coloured network cannot be moved; they follow their broker")
        case _:
            assert_never(request)


def has_link(tree: Tree, x: Node, y: Node) -> bool:
    return x in tree and y in tree and (tree[x] == y or tree[y] == x)


def exchanged(tree: Tree, removed: tuple[Node, Node], joined: tuple[Node, Node]) -> dict[Node, Node]:
    """The subtree of the removed link moves to the new one; between the two, parents and children swap."""
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
    """Its children move to its parent."""
    if broker not in tree:
        raise TopologyError(f"{broker} is not in the tree; name a broker that is")
    above = tree[broker]
    if above == NOBODY:
        raise TopologyError(f"{broker} is the root and cannot be removed")
    return {name: above if parent == broker else parent for name, parent in tree.items() if name != broker}


def upwards(tree: Tree, broker: Node) -> list[Node]:
    """The broker and its ancestors, the root last; stops at a cycle that a fault has made."""
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
    """Whether every path upwards ends at this root."""
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
