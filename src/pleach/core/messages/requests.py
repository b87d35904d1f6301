"""Requests of an operator for a reconfiguration, to any broker."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import Message, Node

PUBLISHED = "swaplink-published"  # SwapLink as S0 prints it

Way: TypeAlias = Annotated[list[Node], msgspec.Meta(min_length=1)]  # at the first broker it begins


class RequestSwap(Message, frozen=True):
    """Turn a–b–c into a–c–b. `protocol`: one of `overlay.registry.SWAPS`; from operators any, or empty: the broker's.

    `is_patient`: where brokers are busy, they are asked again later. Else the request is refused then.
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


class RequestExchange(Message, frozen=True):
    """Replace a link of the tree by another one.

    `path`: from one end of the new link to the other, in the tree as it is. What goes is the link after `path[cut]`.
    `protocol`: one of `overlay.registry.CYCLES`. `is_patient`: as of `RequestSwap`.
    """

    operation: str
    path: Way
    cut: int
    protocol: str
    is_patient: bool = True

    @property
    def begins_at(self) -> Node:
        return self.path[0]


class RequestAdd(Message, frozen=True):
    """To a broker without neighbours: join the tree at `to`, which listens at `address`."""

    operation: str
    to: Node
    address: str = ""


class RequestRemove(Message, frozen=True):
    """Take a broker that is a leaf out of the tree; its clients go to its neighbour.

    `absent`: clients that are not connected, and need not be waited for if they still are not when it leaves.
    """

    operation: str
    broker: Node
    absent: list[Node] = msgspec.field(default_factory=list)

    @property
    def begins_at(self) -> Node:
        return self.broker


class RequestMove(Message, frozen=True):
    """Have a client go to another broker. `path`: from its broker to that one, in the tree as it is.

    `delay_ms_max`: how long a message takes at most from one end to the other; 0: nobody knows. Where it is known, no
    end waits for ever for the other one.
    """

    operation: str
    client: Node
    path: Way
    delay_ms_max: int = 0

    @property
    def begins_at(self) -> Node:
        return self.path[0]


SoughtRequest: TypeAlias = (
    RequestSwap | RequestExchange | RequestRemove | RequestMove
)  # begins at a certain broker, and finds it


class Seek(Message, frozen=True):
    """Pass a request on to the broker where it begins, wherever in the tree that is."""

    request: SoughtRequest


class Sought(Message, frozen=True):
    """The answer to `Seek`: whether the broker is in this direction, and has the request."""

    operation: str
    is_found: bool


class Presence(Message, frozen=True):
    """From the driver of a broker whose links may be down: who of its peers cannot be reached now, and who can again.

    Where state is leased (stabilise/), nothing runs out of those who are away, and nothing is renewed to them.
    """

    away: list[Node]
    back: list[Node]


OperatorRequest: TypeAlias = RequestSwap | RequestExchange | RequestAdd | RequestRemove | RequestMove
