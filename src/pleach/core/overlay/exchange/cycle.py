"""The reconfiguration cycle (S1 §4.2.1): the brokers from one end of the new link to the other, in the tree as it is.

B1 = u ─ … ─ x ──r── y ─ … ─ v = Bn        r goes, a = (u, v) comes
 └──────────────a──────────────┘
"""

from __future__ import annotations

import msgspec

from pleach.core.messages import CycleEnded, CycleForgotten, LockCycle, Node, RequestExchange

BROKERS_MIN = 3  # of a cycle


class Cycle(msgspec.Struct, frozen=True):
    """`cut`: r lies between path[cut] and path[cut + 1]. An end of r may be an end of a as well."""

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
        """The next broker on the way to a, on the same side; None at a."""
        side = self.side(broker)
        at = side.index(broker)
        return side[at - 1] if at else None

    def towards_old(self, broker: Node) -> Node | None:
        side = self.side(broker)
        at = side.index(broker)
        return side[at + 1] if at + 1 < len(side) else None

    def way_around(self, broker: Node) -> list[Node]:
        """From a broker, by way of a, to the end of r on the other side; without the first."""
        own = self.side(broker)
        other = self.side(self.v if own[0] == self.u else self.u)
        return [*own[: own.index(broker)][::-1], *other]

    def along(self, broker: Node) -> list[Node]:
        """The brokers before and after one, in the tree as it was."""
        at = self.path.index(broker)
        return [*self.path[max(at - 1, 0) : at], *self.path[at + 1 : at + 2]]

    def are_beside(self, one: Node, other: Node) -> bool:
        """Whether two brokers are linked on the cycle, by a or in the tree as it was."""
        return one in self.path and (other in self.along(one) or other == self.across_new(one))

    def is_next(self, before: Node, broker: Node) -> bool:
        """Whether a broker comes after another one on the way from u round to u."""
        path = self.path
        return not self.why_not() and broker in path and path[path.index(broker) - 1] == before

    def why_not(self) -> str:
        """What is wrong with it; empty where nothing is. The brokers see whether the links are there."""
        if len(self.path) < BROKERS_MIN:
            return "an exchange takes at least three brokers"
        if len(set(self.path)) < len(self.path):
            return "a broker is on the cycle twice"
        if not 0 <= self.cut < len(self.path) - 1:
            return f"there is no link {self.cut} on a path of {len(self.path)} brokers"
        return ""
