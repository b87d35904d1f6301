"""The routing tables of the three brokers of a swap, before and after it (S0 §IV-A, state 3).

In a–b–c, what b has from a is a's side. c has the sides of a and b mixed, and is the only broker that lacks knowledge:
so b sends it both sides separately. The three know or can compute everything else, each for itself and with the same
result, since reductions are functions of sets:

    a  from c: what it had from b                      c has of a: what b had of a
    b  from c: the sides of a and c, reduced           c has of b: b's side, as b sent it
    c  from a: a's side, from b: b's side              a has of c: the sides of b and c, reduced (b says where not)

Then each tells its new neighbour, entry by entry, the difference to what that one should have: what changed during the
swap, and what a policy reduces differently in another tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pleach.core.messages import Layer, Node, Swap, TableEntries
from pleach.core.overlay.swaplink.state import Swapping
from pleach.core.routing.entries import Entry
from pleach.core.routing.rewiring import NewLink, Rewiring, Tables, packed, unpacked
from pleach.core.routing.router import Router

ADVERTISEMENTS, SUBSCRIPTIONS = Layer.ADVERTISEMENTS, Layer.SUBSCRIPTIONS


def received(router: Router, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
    return {layer: frozenset(router.received_from(layer, neighbour)) for layer in Layer}


def told(router: Router, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
    return {layer: router.told(layer, neighbour) for layer in Layer}


@dataclass(frozen=True)
class Direction:
    """Where the root lies in a hierarchical network (S1 §2.2.3): a child tells its parent, and never the reverse."""

    router: Router
    root_is_behind_a: bool  # as seen from b
    root_is_behind_c: bool

    def b_tells_c(self) -> bool:
        return not self._is_hierarchical or self.root_is_behind_a or self.root_is_behind_c

    def c_tells_b(self) -> bool:
        return not self._is_hierarchical or not (self.root_is_behind_a or self.root_is_behind_c)

    def c_tells_a(self) -> bool:
        return not self._is_hierarchical or self.root_is_behind_a

    @property
    def _is_hierarchical(self) -> bool:
        return self.router.config.hierarchical


def for_a_newcomer(router: Router) -> dict[Layer, frozenset[Entry]]:
    """What a broker tells a new neighbour that has told it nothing: where advertisements gate, no subscriptions."""
    entries = {layer: router.entries_but_from(layer, ()) for layer in Layer}
    subscriptions = () if router.config.hierarchical else entries[SUBSCRIPTIONS]
    return _exported(router, advertisements=entries[ADVERTISEMENTS], subscriptions=subscriptions, gate=())


def side_of_b(direction: Direction, a: Node, c: Node) -> dict[Layer, frozenset[Entry]]:
    """What b tells c in the new tree: its own side, without a's."""
    router = direction.router
    own = {layer: router.entries_but_from(layer, (a, c)) for layer in Layer}
    return _exported(
        router,
        advertisements=own[ADVERTISEMENTS],
        subscriptions=own[SUBSCRIPTIONS] if direction.b_tells_c() else (),
        gate=[*router.received_from(ADVERTISEMENTS, a), *router.received_from(ADVERTISEMENTS, c)],
    )


def expected_at_a(direction: Direction, sides: tuple[Tables, Tables, Tables]) -> dict[Layer, frozenset[Entry]]:
    """What a has of b's and c's sides, as both b and c compute it from the sides of a, b and c."""
    side_a, side_b, side_c = sides
    wanted = [*side_b[SUBSCRIPTIONS], *side_c[SUBSCRIPTIONS]]
    return _exported(
        direction.router,
        advertisements=[*side_b[ADVERTISEMENTS], *side_c[ADVERTISEMENTS]],
        subscriptions=wanted if direction.c_tells_a() else (),
        gate=side_a[ADVERTISEMENTS],
    )


def expected_at_b(direction: Direction, side_a: Tables, side_c: Tables) -> dict[Layer, frozenset[Entry]]:
    """What b has of a's and c's sides, as both b and c compute it; all of it comes from c from now on."""
    wanted = [*side_a[SUBSCRIPTIONS], *side_c[SUBSCRIPTIONS]] if direction.c_tells_b() else ()
    return {
        ADVERTISEMENTS: direction.router.reduced([*side_a[ADVERTISEMENTS], *side_c[ADVERTISEMENTS]]),
        SUBSCRIPTIONS: direction.router.reduced(wanted),
    }


def _exported(
    router: Router, *, advertisements: Iterable[Entry], subscriptions: Iterable[Entry], gate: Iterable[Entry]
) -> dict[Layer, frozenset[Entry]]:
    return {
        ADVERTISEMENTS: router.reduced(advertisements if router.config.advertisements else ()),
        SUBSCRIPTIONS: router.reduced(router.advertised_among(subscriptions, gate)),
    }


def without(tables: Tables, others: Tables) -> dict[Layer, frozenset[Entry]]:
    return {layer: frozenset(tables[layer]) - frozenset(others[layer]) for layer in Layer}


def with_all(tables: Tables, others: Tables) -> dict[Layer, frozenset[Entry]]:
    return {layer: frozenset(tables[layer]) | frozenset(others[layer]) for layer in Layer}


# How each of the three takes over the new tree ----------------------------------------------------------------------


def sides_for_c(router: Router, swap: Swapping) -> Swap:
    """6, at b: the sides of a and b separately, and how what a has differs from what c would expect."""
    direction = _direction_at_b(router, swap)
    side_a, side_c = received(router, swap.a), received(router, swap.c)
    side_b = side_of_b(direction, swap.a, swap.c)
    expected, actual = expected_at_a(direction, (side_a, side_b, side_c)), told(router, swap.a)
    return Swap(
        swap.operation,
        packed(side_a),
        packed(side_b),
        known_at_a=packed(without(actual, expected)),
        unknown_at_a=packed(without(expected, actual)),
        root_is_behind_a=direction.root_is_behind_a,
        is_settled=router.is_settled([swap.a]),
    )


def _direction_at_b(router: Router, swap: Swapping) -> Direction:
    return Direction(router, router.parent == swap.a, router.parent == swap.c)


def new_at_c(router: Router, swap: Swapping, message: Swap) -> Rewiring:
    """6, at c."""
    direction = Direction(router, message.root_is_behind_a, router.parent != swap.b)
    side_a, side_b, side_c = unpacked(message.side_a), unpacked(message.side_b), told(router, swap.b)
    expected = expected_at_a(direction, (side_a, side_b, side_c))
    at_a = with_all(without(expected, unpacked(message.unknown_at_a)), unpacked(message.known_at_a))
    return Rewiring(
        links={
            swap.a: NewLink(received=side_a, told=at_a),
            swap.b: NewLink(received=side_b, told=expected_at_b(direction, side_a, side_c)),
        },
        parent=swap.a if message.root_is_behind_a else router.parent,
        settle=not message.is_settled,
    )


def new_at_a(router: Router, swap: Swapping) -> Rewiring:
    """7, at a."""
    link = NewLink(received=received(router, swap.b), told=told(router, swap.b), beyond=[swap.b])
    parent = swap.c if router.parent == swap.b else router.parent
    return Rewiring(gone=(swap.b,), links={swap.c: link}, parent=parent)


def new_at_b(router: Router, swap: Swapping, side_b: Sequence[TableEntries]) -> Rewiring:
    """9, at b. `side_b`: as b has sent it to c."""
    side_a, side_c = received(router, swap.a), received(router, swap.c)
    both = expected_at_b(_direction_at_b(router, swap), side_a, side_c)
    link = NewLink(received=both, told=unpacked(side_b), beyond=[swap.a])
    parent = swap.c if router.parent == swap.a else router.parent
    return Rewiring(gone=(swap.a,), links={swap.c: link}, parent=parent)


def old(router: Router, neighbours: Sequence[Node]) -> Rewiring:
    """The swap is undone: the links stay as they were, and are told what was not told while they were suspended."""
    links = {n: NewLink(received(router, n), told(router, n), is_same=True) for n in neighbours}
    return Rewiring(links=links, parent=router.parent)
