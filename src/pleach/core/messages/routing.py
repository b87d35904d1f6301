"""Between brokers, in every tree: events, and what each wants of the others."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.messages.base import EventMessage, Layer, Message, Node


class Forward(EventMessage, frozen=True, tag=32):
    """An event on its way through the tree."""


class Install(Message, frozen=True, tag=33):
    """Add an entry to what the sender wants (or advertises). `number` counts the sender's installs on this link."""

    layer: Layer
    number: int
    owner: str
    filter: Filter


class Withdraw(Message, frozen=True, tag=34):
    """Take back an entry that was installed before."""

    layer: Layer
    owner: str
    filter: Filter


class Installed(Message, frozen=True, tag=35):
    """The entry with this number is in effect at the sender of this message and everywhere behind it."""

    layer: Layer
    number: int


class Settle(Message, frozen=True, tag=36):
    """Answer with `Installed(number)` once all that the sender has told is in effect, at the receiver and behind it.

    `beyond`: the way to brokers for which the receiver cannot vouch, since links on it are new: it asks the first of
    them, a neighbour of its own, to ask the rest.
    """

    layer: Layer
    number: int
    beyond: list[Node] = msgspec.field(default_factory=list)


class Round(Message, frozen=True, tag=37):
    """A broker says again all that it wants of a neighbour: what is said between two of these (stabilise/)."""

    ends: bool


class Mark(IntEnum):
    FLOOD = 0  # sent to both others of a swap: not to be sent on among the three (S0 §IV-A, state 2)
    RELAY = 1  # sent on for another of the three: waits until the old path is closed (S0 §IV-A, ChangePath)
    GRAY = 2  # came onto the cycle at a broker that knows the way over the new link (S1 §4.4.2); unmarked is black


class Marked(Message, frozen=True, tag=38):
    """An event that carries a mark of a reconfiguration, and by which of its brokers it came among them."""

    operation: str
    mark: Mark
    origin: Node
    message: Forward

    @property
    def events(self) -> Sequence[Event]:
        return self.message.events


PubSub: TypeAlias = Forward | Install | Withdraw | Installed | Settle | Round
