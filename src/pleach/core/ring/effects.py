"""Effects of a ring host, besides timers.

The driver's duties, where they differ from those in `pleach.core.effects`:
- `Cast` is sent to any host, at the peer's address, without a link of the tree. It may be lost, doubled or reordered; a
  host that is down gets nothing.
- `TreeNeighbours` tells the layer that makes links what they should be, whenever that changes.
- The others answer the driver's calls: `look_up`, `join`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.effects import SetTimer
from pleach.core.messages import Message, Peer


class Asker(StrEnum):
    """Who asked for the owner of a key."""

    USER = "user"
    FINGERS = "fingers"
    TREE = "tree"


class Purpose(NamedTuple):
    """`number`: of the finger, of the survey, or given by the user."""

    asker: Asker = Asker.USER
    number: int = 0


class Cast(msgspec.Struct, frozen=True, gc=False):
    to: Peer
    message: Message


class OwnerFound(msgspec.Struct, frozen=True, gc=False):
    """The owner of a key, by its own answer. It owns the keys behind `low`; `hops` hosts were asked, including it."""

    key: int
    owner: Peer
    low: int
    hops: int
    purpose: Purpose


class OwnerNotFound(msgspec.Struct, frozen=True, gc=False):
    """No answer in time on any path. The ring may be repairing itself; retry later."""

    key: int
    purpose: Purpose


class TreeNeighbours(msgspec.Struct, frozen=True):
    """The host's present neighbours in the tree. The root has no parent; children are from left to right."""

    parent: Peer | None
    children: tuple[Peer, ...]


class JoinEnded(msgspec.Struct, frozen=True, gc=False):
    """The host is a member; or (with the reason) it is not, and the attempt has ended."""

    refusal: str = ""


RingEffect: TypeAlias = Cast | SetTimer | OwnerFound | OwnerNotFound | TreeNeighbours | JoinEnded
