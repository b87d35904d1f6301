"""Between brokers whose tables are rebuilt in turn (S1 §3.4): rounds, and to which of two tables something belongs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from pleach.core.events.event import Event
from pleach.core.messages.base import Message, Node
from pleach.core.messages.routing import Forward, Install, Installed, Settle, Withdraw


class Parity(IntEnum):
    """Which of the two tables: the paper's x. Even rounds build one, odd rounds the other."""

    EVEN = 0
    ODD = 1

    @property
    def other(self) -> Parity:
        return Parity(1 - self)


class Switch(Message, frozen=True, tag=160):
    """The sender has emptied this table and builds it anew. From the neighbour towards the root: do so too."""

    parity: Parity


class Anew(Message, frozen=True, tag=161):
    """What follows is all that the sender has to say for this table, in this round."""

    parity: Parity


class InTable(Message, frozen=True, tag=162):
    """What one table says to the same table of a neighbour. `tree`: whose, where there is one for each broker."""

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
    """From the neighbour towards the root, where rounds wait for evidence: say when all is said again for this table.

    `wave`: with advertisements it is asked twice in a round. `root`: who asks, by way of the sender.
    """

    parity: Parity
    wave: int
    root: Node = ""


class Whole(Message, frozen=True, tag=165):
    """The answer, and said without being asked for the first wave: this table has all, at the sender and below it."""

    parity: Parity
    wave: int


RebuildMessage: TypeAlias = Switch | Anew | InTable | Along
PaceMessage: TypeAlias = Muster | Whole
