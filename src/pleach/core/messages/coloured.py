"""The overlay with three colours (S1 §4.5): what brokers of a self-stabilising tree say to each other.

root ── Recolour ──▶ child ── Recolour ──▶ …          every ξ
     ◀── RecolourAck ──   ◀── RecolourAck ──
     ◀── Census ───────   ◀── Census ───────          from the leaves, once per recolouring
who has lost the tree ── JoinTree ──▶ root ── JoinTree ──▶ … ── Welcome ──▶ who has lost the tree
whoever is asked for a reconfiguration ── Carry ──▶ root ── Carried ──▶ whoever was asked
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.messages.base import Message, Node
from pleach.core.messages.clients import ClientRequest
from pleach.core.messages.membership import Farewell
from pleach.core.messages.requests import OperatorRequest
from pleach.core.messages.routing import PubSub


class ColourStage(IntEnum):
    """What a colour stands for at a broker just now."""

    OLD = 0  # was used before the last recolouring; events of it may still be under way
    CURRENT = 1  # events that are published get this one
    NEW = 2  # is being built, and used after the next recolouring


class Coloured(Message, frozen=True, tag=176):
    """A message of the tree and the table that have this colour.

    `stage`: of the colour, at the sender. `is_downward`: the sender takes the receiver for a child. `hops`: links that
    an event has come over; on a tree it comes to an end by itself, on what a fault has made of one it need not.
    """

    colour: int
    stage: ColourStage
    is_downward: bool
    hops: int
    message: PubSub

    @property
    def events(self) -> Sequence[Event]:
        return self.message.events


class ParentChange(msgspec.Struct, frozen=True, array_like=True):
    """A broker gets another parent. Without one it leaves; `is_new`: it is in no tree so far."""

    broker: Node
    parent: Node
    is_new: bool = False


class Recolour(Message, frozen=True, tag=177):
    """From now on `colour` is the new one. `hops`: links from the root to the receiver.

    `is_changed`: the tree that is current from now on differs from the one before. `moves`: how the next one differs.
    """

    colour: int
    root: Node
    hops: int
    is_changed: bool
    moves: list[ParentChange]


class RecolourAck(Message, frozen=True, tag=178):
    """The sender is a child, and alive."""


class Census(Message, frozen=True, tag=179):
    """The current tree from the sender downwards: each broker with its parent."""

    brokers: list[tuple[Node, Node]]


class JoinTree(Message, frozen=True, tag=180):
    """Give the joiner a place, or pass this on to somebody who may. `avoid`: where it had one and heard nothing."""

    joiner: Node
    avoid: Node
    hops: int
    is_root: bool


class Welcome(Message, frozen=True, tag=181):
    """The sender is the receiver's parent in the new colour, which is `colour`. `moves`: those it comes with."""

    colour: int
    root: Node
    moves: list[ParentChange] = msgspec.field(default_factory=list)


class Carry(Message, frozen=True, tag=182):
    """To the root: have this carried out. `asked`: who is to be told how it ends."""

    asked: Node
    request: OperatorRequest


class Carried(Message, frozen=True, tag=183):
    """How an operation ended: done, or refused for a reason."""

    operation: str
    refusal: str


class OnBehalf(Message, frozen=True, tag=184):
    """A client of the sender, which leaves the tree, asks for this; the receiver is its broker from now on."""

    client: Node
    request: ClientRequest | Farewell

    @property
    def events(self) -> Sequence[Event]:
        return self.request.events


ColouredMessage: TypeAlias = (
    Coloured | Recolour | RecolourAck | Census | JoinTree | Welcome | Carry | Carried | OnBehalf
)
