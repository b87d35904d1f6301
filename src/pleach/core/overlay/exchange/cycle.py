"""The reconfiguration cycle (S1 §4.2.1): the brokers from one end of the new link to the other, in the tree as it is.

B1 = u ─ … ─ x ──r── y ─ … ─ v = Bn        link r is removed, link a = (u, v) is added
 └──────────────a──────────────┘
"""

from __future__ import annotations

from enum import Flag, auto

import msgspec

from pleach.core.messages import CycleEnded, CycleForgotten, LockCycle, Node, RequestExchange

BROKERS_MIN = 3  # of a cycle


class CycleRole(Flag):
    """The place of a broker on the cycle. One that is an end of both links has two roles: U and X, or V and Y."""

    U = auto()  # the end of a that was asked for the exchange (S1: B1)
    V = auto()  # the other end of a (S1: Bn)
    X = auto()  # the end of r on the side of u
    Y = auto()  # the end of r on the side of v
    HEAD = auto()  # between u and x (S2: the head path)
    TAIL = auto()  # between y and v (S2: the tail path)


OF_NEW, OF_OLD, OF_NONE = (
    CycleRole.U | CycleRole.V,
    CycleRole.X | CycleRole.Y,
    CycleRole.HEAD | CycleRole.TAIL,
)  # which link it is an end of


class Cycle(msgspec.Struct, frozen=True):
    """`cut`: r is the link between path[cut] and path[cut + 1]. An end of r may be an end of a as well."""

    operation: str
    path: list[Node]
    cut: int
    protocol: str

    @classmethod
    def of(cls, request: RequestExchange | LockCycle | CycleForgotten | CycleEnded) -> Cycle:
        return cls(request.operation, request.path, request.cut, request.protocol)

    @property
    def u(self) -> Node:
        return self.path[0]

    @property
    def v(self) -> Node:
        return self.path[-1]

    @property
    def x(self) -> Node:
        return self.path[self.cut]

    @property
    def y(self) -> Node:
        return self.path[self.cut + 1]

    def roles(self, broker: Node) -> CycleRole:
        ends = {CycleRole.U: self.u, CycleRole.V: self.v, CycleRole.X: self.x, CycleRole.Y: self.y}
        found = CycleRole(sum(role.value for role, node in ends.items() if node == broker))
        return found or (CycleRole.HEAD if broker in self.path[: self.cut] else CycleRole.TAIL)

    def side(self, broker: Node) -> list[Node]:
        """The brokers on the same side of r, from a to r."""
        if broker in self.path[: self.cut + 1]:
            return self.path[: self.cut + 1]
        return self.path[: self.cut : -1]

    def end_at_new(self, broker: Node) -> Node:
        """The end of a on the side of this broker."""
        return self.side(broker)[0]

    def end_at_old(self, broker: Node) -> Node:
        """The end of r on the side of this broker."""
        return self.side(broker)[-1]

    def across_new(self, broker: Node) -> Node | None:
        """The other end of a, for an end of it."""
        return {self.u: self.v, self.v: self.u}.get(broker)

    def across_old(self, broker: Node) -> Node | None:
        """The other end of r, for an end of it."""
        return {self.x: self.y, self.y: self.x}.get(broker)

    def towards_new(self, broker: Node) -> Node | None:
        """The next broker towards a, on the same side; None for an end of a."""
        side = self.side(broker)
        at = side.index(broker)
        return side[at - 1] if at else None

    def towards_old(self, broker: Node) -> Node | None:
        """The next broker towards r, on the same side; None for an end of r."""
        side = self.side(broker)
        at = side.index(broker)
        return side[at + 1] if at + 1 < len(side) else None

    def way_around(self, broker: Node) -> list[Node]:
        """The path from a broker over a to the end of r on the other side, without the broker itself."""
        own = self.side(broker)
        other = self.side(self.v if own[0] == self.u else self.u)
        return [*own[: own.index(broker)][::-1], *other]

    def along(self, broker: Node) -> list[Node]:
        """The brokers before and after one on the path, which are its neighbours in the old tree."""
        at = self.path.index(broker)
        return [*self.path[max(at - 1, 0) : at], *self.path[at + 1 : at + 2]]

    def before(self, broker: Node) -> Node:
        """The broker ahead of one on the cycle, in the direction in which it is locked."""
        return self.path[self.path.index(broker) - 1]

    def after(self, broker: Node) -> Node:
        return self.path[(self.path.index(broker) + 1) % len(self.path)]

    def are_beside(self, one: Node, other: Node) -> bool:
        """Whether two brokers are adjacent on the cycle, by a or in the old tree."""
        return one in self.path and (other in self.along(one) or other == self.across_new(one))

    def is_next(self, before: Node, broker: Node) -> bool:
        """Whether a broker follows another one on the cycle, in the direction in which it is locked."""
        return not self.why_not() and broker in self.path and self.before(broker) == before

    def why_not(self) -> str:
        """Why this is no cycle; empty if it is one. Whether its links exist, each broker checks for itself."""
        if len(self.path) < BROKERS_MIN:
            return "an exchange takes at least three brokers"
        if len(set(self.path)) < len(self.path):
            return "a broker is on the cycle twice"
        if not 0 <= self.cut < len(self.path) - 1:
            return f"there is no link {self.cut} on a path of {len(self.path)} brokers"
        return ""
