"""How each of the three brokers of a swap takes over the new tree (sides.py has why each knows what it needs)."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.messages import Node, Swap, TableEntries
from pleach.core.overlay.swaplink import sides
from pleach.core.overlay.swaplink.events import Swapping
from pleach.core.routing.rewiring import NewLink, Rewiring, packed, unpacked
from pleach.core.routing.router import Router


def sides_for_c(router: Router, swap: Swapping) -> Swap:
    """At b: the sides of a and b apart, and what a has beyond what c would expect."""
    direction = _direction_at_b(router, swap)
    side_a, side_c = sides.received(router, swap.a), sides.received(router, swap.c)
    side_b = sides.side_of_b(direction, swap.a, swap.c)
    expected, actual = sides.expected_at_a(direction, (side_a, side_b, side_c)), sides.told(router, swap.a)
    return Swap(
        swap.operation,
        packed(side_a),
        packed(side_b),
        known_at_a=packed(sides.without(actual, expected)),
        unknown_at_a=packed(sides.without(expected, actual)),
        root_is_behind_a=direction.root_is_behind_a,
        is_settled=router.is_settled([swap.a]),
    )


def _direction_at_b(router: Router, swap: Swapping) -> sides.Direction:
    return sides.Direction(router, router.parent == swap.a, router.parent == swap.c)


def new_at_c(router: Router, swap: Swapping, message: Swap) -> Rewiring:
    direction = sides.Direction(router, message.root_is_behind_a, router.parent != swap.b)
    side_a, side_b, side_c = unpacked(message.side_a), unpacked(message.side_b), sides.told(router, swap.b)
    expected = sides.expected_at_a(direction, (side_a, side_b, side_c))
    at_a = sides.with_all(sides.without(expected, unpacked(message.unknown_at_a)), unpacked(message.known_at_a))
    return Rewiring(
        links={
            swap.a: NewLink(received=side_a, told=at_a),
            swap.b: NewLink(received=side_b, told=sides.expected_at_b(direction, side_a, side_c)),
        },
        parent=swap.a if message.root_is_behind_a else router.parent,
        settle=not message.is_settled,
    )


def new_at_a(router: Router, swap: Swapping) -> Rewiring:
    link = NewLink(received=sides.received(router, swap.b), told=sides.told(router, swap.b), beyond=[swap.b])
    parent = swap.c if router.parent == swap.b else router.parent
    return Rewiring(gone=(swap.b,), links={swap.c: link}, parent=parent)


def new_at_b(router: Router, swap: Swapping, side_b: Sequence[TableEntries]) -> Rewiring:
    """`side_b`: as b has sent it to c."""
    side_a, side_c = sides.received(router, swap.a), sides.received(router, swap.c)
    received = sides.expected_at_b(_direction_at_b(router, swap), side_a, side_c)
    link = NewLink(received=received, told=unpacked(side_b), beyond=[swap.a])
    parent = swap.c if router.parent == swap.a else router.parent
    return Rewiring(gone=(swap.a,), links={swap.c: link}, parent=parent)


def old(router: Router, neighbours: Sequence[Node]) -> Rewiring:
    """The links stay as they were: tell over them what was not told while they were suspended."""
    links = {n: NewLink(sides.received(router, n), sides.told(router, n), is_same=True) for n in neighbours}
    return Rewiring(links=links, parent=router.parent)
