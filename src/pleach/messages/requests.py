"""Requests of an operator for a reconfiguration, to any broker."""

from __future__ import annotations

from typing import TypeAlias

from pleach.messages.base import Message, Node


class RequestSwap(Message, frozen=True):
    """Turn a–b–c into a–c–b."""

    operation: str
    a: Node
    b: Node
    c: Node

    @property
    def begins_at(self) -> Node:
        return self.a


class RequestAdd(Message, frozen=True):
    """To a broker without neighbours: join the tree at `to`, which listens at `address`."""

    operation: str
    to: Node
    address: str = ""


class RequestRemove(Message, frozen=True):
    """Take a broker that is a leaf out of the tree; its clients go to its neighbour."""

    operation: str
    broker: Node

    @property
    def begins_at(self) -> Node:
        return self.broker


class Seek(Message, frozen=True):
    """Pass a request on to the broker where it begins, wherever in the tree that is."""

    request: RequestSwap | RequestRemove


class Sought(Message, frozen=True):
    """The answer to `Seek`: whether the broker is in this direction, and has the request."""

    operation: str
    is_found: bool


OperatorRequest: TypeAlias = RequestSwap | RequestAdd | RequestRemove
