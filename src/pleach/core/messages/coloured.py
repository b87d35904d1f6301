"""Messages of the self-stabilising overlay with three colours (S1 §4.5).

root ── Recolour ──▶ child ── Recolour ──▶ …          every ξ
     ◀── RecolourAck ──   ◀── RecolourAck ──
     ◀── Census ───────   ◀── Census ───────          from the leaves, once per recolouring
orphan ── JoinTree ──▶ root ── JoinTree ──▶ … ── Welcome ──▶ orphan
operator's broker ── Carry ──▶ root ── Carried ──▶ operator's broker
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.messages.base import Integer, Message, Node
from pleach.core.messages.clients import ClientRequest
from pleach.core.messages.membership import Farewell
from pleach.core.messages.requests import OperatorRequest
from pleach.core.messages.routing import PubSub


class ColourStage(IntEnum):
    """What a broker uses a colour for at present."""

    OLD = 0  # used before the last recolouring; its events may still be in flight
    CURRENT = 1  # given to events that are published
    NEW = 2  # under construction; used after the next recolouring


class Coloured(Message, frozen=True, tag=176):
    """A message for the tree and the table of this colour.

    `stage`: of the colour, at the sender. `is_downward`: the sender takes the receiver for a child. `hops`: links that
    an event has crossed; bounds its travel where a fault has closed a cycle.
    """

    colour: Integer
    stage: ColourStage
    is_downward: bool
    hops: Integer
    message: PubSub

    @property
    def events(self) -> Sequence[Event]:
        return self.message.events


class ParentChange(msgspec.Struct, frozen=True, array_like=True):
    """A broker gets another parent; with none it leaves. `is_new`: it has been in no tree so far."""

    broker: Node
    parent: Node
    is_new: bool = False


class Recolour(Message, frozen=True, tag=177):
    """From now on `colour` is the new one. `hops`: links from the root to the receiver.

    `is_changed`: the tree that becomes current differs from the one before. `moves`: how the next one differs.
    """

    colour: Integer
    root: Node
    hops: Integer
    is_changed: bool
    moves: list[ParentChange]


class RecolourAck(Message, frozen=True, tag=178):
    """The sender is a child, and alive."""


class Census(Message, frozen=True, tag=179):
    """The current tree from the sender downwards: each broker with its parent."""

    brokers: list[tuple[Node, Node]]


class JoinTree(Message, frozen=True, tag=180):
    """Adopt the joiner, or forward this to a broker that may. `avoid`: its last parent, which was silent."""

    joiner: Node
    avoid: Node
    hops: Integer
    is_root: bool


class Welcome(Message, frozen=True, tag=181):
    """The sender is the receiver's parent in the new colour, `colour`. `moves`: how the next tree differs."""

    colour: Integer
    root: Node
    moves: list[ParentChange] = msgspec.field(default_factory=list)


class Carry(Message, frozen=True, tag=182):
    """To the root: carry this out. `asked`: the broker that is told the outcome."""

    asked: Node
    request: OperatorRequest


class Carried(Message, frozen=True, tag=183):
    """The outcome of an operation: done, or refused for a reason."""

    operation: str
    refusal: str


class OnBehalf(Message, frozen=True, tag=184):
    """A request of a client of the sender, which leaves the tree; the receiver is the client's broker from now on."""

    client: Node
    request: ClientRequest | Farewell

    @property
    def events(self) -> Sequence[Event]:
        return self.request.events


ColouredMessage: TypeAlias = (
    Coloured | Recolour | RecolourAck | Census | JoinTree | Welcome | Carry | Carried | OnBehalf
)
