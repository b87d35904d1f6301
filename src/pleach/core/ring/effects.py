"""What a host of the ring wants done; beside timers, which are those of every machine.

The driver's duties, where they differ from those in `pleach.core.effects`:
- `Cast` goes to any host, at the peer's address, whether or not there is a link of the tree. It may be lost, doubled or
  overtaken; a host that is down gets nothing.
- `TreeNeighbours` is for the layer that makes links: it says what they should be, whenever that changes.
- The others answer what the driver has asked for: `look_up`, `join`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.effects import SetTimer
from pleach.core.messages import Message, Peer


class Asker(StrEnum):
    """Who wants to know the owner of a key."""

    USER = "user"
    FINGERS = "fingers"
    TREE = "tree"


class Purpose(NamedTuple):
    """`number`: which finger, which survey, or whatever the user has said."""

    asker: Asker = Asker.USER
    number: int = 0


class Cast(msgspec.Struct, frozen=True, gc=False):
    to: Peer
    message: Message


class OwnerFound(msgspec.Struct, frozen=True, gc=False):
    """The owner of a key said so itself. It has the keys behind `low`; `hops` hosts were on the way, it included."""

    key: int
    owner: Peer
    low: int
    hops: int
    purpose: Purpose


class OwnerNotFound(msgspec.Struct, frozen=True, gc=False):
    """No answer in time, whichever way. The ring may be mending: worth another try later."""

    key: int
    purpose: Purpose


class TreeNeighbours(msgspec.Struct, frozen=True):
    """The host's neighbours in the tree are now these. The root has no parent; children stand from left to right."""

    parent: Peer | None
    children: tuple[Peer, ...]


class JoinEnded(msgspec.Struct, frozen=True, gc=False):
    """The host is a member; or (with the reason) it is not, and nothing goes on by itself."""

    refusal: str = ""


RingEffect: TypeAlias = Cast | SetTimer | OwnerFound | OwnerNotFound | TreeNeighbours | JoinEnded
