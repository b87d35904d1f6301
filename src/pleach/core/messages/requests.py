"""Operators' requests for reconfigurations, to any broker."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import Integer, Message, NetworkAddress, Node

PUBLISHED = "swaplink-published"  # SwapLink as S0 prints it

NodePath: TypeAlias = Annotated[list[Node], msgspec.Meta(min_length=1)]  # begins at the first broker


class RequestSwap(Message, frozen=True, tag=48):
    """Turn a–b–c into a–c–b. `protocol`: one of `overlay.registry.SWAPS`; from operators any, or empty: the broker's.

    `is_patient`: retry where brokers are busy; else refuse the request.
    """

    operation: str
    a: Node
    b: Node
    c: Node
    protocol: str = ""
    is_patient: bool = True

    @property
    def begins_at(self) -> Node:
        return self.a

    @property
    def is_published(self) -> bool:
        return self.protocol == PUBLISHED


class RequestExchange(Message, frozen=True, tag=49):
    """Replace a link of the tree by another one.

    `path`: from one end of the new link to the other, in the tree as it is. What goes is the link after `path[cut]`.
    `protocol`: one of `overlay.registry.CYCLES`. `is_patient`: as of `RequestSwap`.
    """

    operation: str
    path: NodePath
    cut: Integer
    protocol: str
    is_patient: bool = True

    @property
    def begins_at(self) -> Node:
        return self.path[0]


class RequestAdd(Message, frozen=True, tag=50):
    """To a broker without neighbours: join the tree at `to`, which listens at `address`."""

    operation: str
    to: Node
    address: NetworkAddress = ""


class RequestRemove(Message, frozen=True, tag=51):
    """Take a broker that is a leaf out of the tree; its clients go to its neighbour.

    `absent`: clients that are not connected; the broker does not wait for those that still are not when it leaves.
    """

    operation: str
    broker: Node
    absent: list[Node] = msgspec.field(default_factory=list)

    @property
    def begins_at(self) -> Node:
        return self.broker


class RequestMove(Message, frozen=True, tag=52):
    """Move a client to another broker. `path`: from its broker to that one, in the tree as it is.

    `delay_ms_max`: a bound on the delay of a message along the path; 0: unknown. Where it is known, no end waits for
    the other without a bound.
    """

    operation: str
    client: Node
    path: NodePath
    delay_ms_max: Integer = 0

    @property
    def begins_at(self) -> Node:
        return self.path[0]


class RequestAbandon(Message, frozen=True, tag=57):
    """Give up `abandoned`, an operation that this broker takes part in, by the name under which it was asked for."""

    operation: str  # a name of its own, by which it is known how this ended
    abandoned: str


SoughtRequest: TypeAlias = RequestSwap | RequestExchange | RequestRemove | RequestMove  # begins at a certain broker


class Seek(Message, frozen=True, tag=53):
    """A request on its way through the tree to the broker where it begins."""

    request: SoughtRequest


class Sought(Message, frozen=True, tag=54):
    """The answer to `Seek`: whether the broker was found in this direction, and has the request."""

    operation: str
    is_found: bool


class Presence(Message, frozen=True, tag=55):
    """From a broker's driver: peers whose links are down (`away`), and peers whose links are up again (`back`).

    Where state is leased (stabilise/), entries of peers that are away do not expire, and nothing is renewed to them.
    """

    away: list[Node]
    back: list[Node]


OperatorRequest: TypeAlias = RequestSwap | RequestExchange | RequestAdd | RequestRemove | RequestMove


def asked_name(on_the_wire: str) -> str:
    """The name of an operation as it was requested; on the wire each attempt has a name of its own."""
    return on_the_wire.partition("~")[0]
