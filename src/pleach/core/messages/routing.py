"""Messages between neighbouring brokers in every overlay: events, subscriptions, advertisements."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.messages.base import EventMessage, Integer, Layer, Message, Node


class Forward(EventMessage, frozen=True, tag=32):
    """An event on its way through the tree."""


class Install(Message, frozen=True, tag=33):
    """Add a routing entry of the sender. `number` counts the sender's installs on this link."""

    layer: Layer
    number: Integer
    owner: str
    filter: Filter


class Withdraw(Message, frozen=True, tag=34):
    """Remove an entry that was installed before."""

    layer: Layer
    owner: str
    filter: Filter


class Installed(Message, frozen=True, tag=35):
    """The entry with this number is in effect at the sender of this message and at all brokers behind it."""

    layer: Layer
    number: Integer


class Settle(Message, frozen=True, tag=36):
    """Answer `Installed(number)` once all entries of the sender are in effect, at the receiver and behind it.

    `beyond`: a path of brokers over new links, whose entries the receiver does not know: it sends `Settle` on to the
    first of them, its own neighbour.
    """

    layer: Layer
    number: Integer
    beyond: list[Node] = msgspec.field(default_factory=list)


class Round(Message, frozen=True, tag=37):
    """Begins or ends (`ends`) a round in which a broker renews all its entries at a neighbour (stabilise/)."""

    ends: bool


class Mark(IntEnum):
    FLOOD = 0  # sent to both others of a swap: not forwarded among the three (S0 §IV-A, state 2)
    RELAY = 1  # forwarded for another of the three: waits until the old path is closed (S0 §IV-A, ChangePath)
    GRAY = 2  # entered the cycle at a broker that routes over the new link (S1 §4.4.2); unmarked is black


class Marked(Message, frozen=True, tag=38):
    """An event with the mark of a reconfiguration. `origin`: its broker at which the event came among them."""

    operation: str
    mark: Mark
    origin: Node
    message: Forward

    @property
    def events(self) -> Sequence[Event]:
        return self.message.events


PubSub: TypeAlias = Forward | Install | Withdraw | Installed | Settle | Round
