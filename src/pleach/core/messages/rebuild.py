"""Messages of brokers that rebuild their two routing tables in turn (S1 §3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from pleach.core.events.event import Event
from pleach.core.messages.base import Integer, Message, Node
from pleach.core.messages.routing import Forward, Install, Installed, Settle, Withdraw


class Parity(IntEnum):
    """Which of the two tables: the paper's x. Even rounds build one, odd rounds the other."""

    EVEN = 0
    ODD = 1

    @property
    def other(self) -> Parity:
        return Parity(1 - self)


class Switch(Message, frozen=True, tag=160):
    """The sender has emptied this table and rebuilds it. From the neighbour towards the root: do the same."""

    parity: Parity


class Anew(Message, frozen=True, tag=161):
    """Begins the sender's entries for this table in this round; entries before it are void."""

    parity: Parity


class InTable(Message, frozen=True, tag=162):
    """A routing message for one table. `tree`: the root of its tree, where there is one for each broker."""

    tree: Node
    parity: Parity
    message: Install | Withdraw | Installed | Settle


class Along(Message, frozen=True, tag=163):
    """An event on its way down the tree of the broker that it was published at."""

    tree: Node
    message: Forward

    @property
    def events(self) -> Sequence[Event]:
        return self.message.events


class Muster(Message, frozen=True, tag=164):
    """From the neighbour towards the root, where rounds end on evidence: report when this table is complete.

    `wave`: with advertisements there are two in a round. `root`: the broker that asks, through the sender.
    """

    parity: Parity
    wave: Integer
    root: Node = ""


class Whole(Message, frozen=True, tag=165):
    """The answer, unasked for the first wave: this table is complete at the sender and below it."""

    parity: Parity
    wave: Integer


RebuildMessage: TypeAlias = Switch | Anew | InTable | Along
PaceMessage: TypeAlias = Muster | Whole
