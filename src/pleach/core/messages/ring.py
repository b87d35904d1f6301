"""The ring of brokers (Chord), and the tree that it keeps (S3); see docs/protocols/ring.md.

Ring messages go between any two hosts, not only between neighbours of the tree, and may be lost: whoever asks waits
for an answer by its ticket, and asks again.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.messages.base import Message, Node


class Peer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A host of the ring: its place, its name, and where it listens."""

    key: int
    name: Node
    address: str = ""


class FindOwner(Message, frozen=True, tag=192):
    """Passed on from host to host until it is at the owner of `key`, who answers `origin`.

    `is_last`: the sender takes the receiver for the owner; if it is not, it is one further back.
    """

    key: int
    ticket: int
    origin: Peer
    hops: int = 0
    is_last: bool = False


class AskHop(Message, frozen=True, tag=193):
    """Who is next on the way to the owner of `key`, other than those in `avoid`, who did not answer?"""

    key: int
    ticket: int
    origin: Peer
    avoid: list[int] = msgspec.field(default_factory=list)
    is_last: bool = False


class NextHop(Message, frozen=True, tag=194):
    ticket: int
    peer: Peer
    is_last: bool


class KeyOwner(Message, frozen=True, tag=195):
    """From the owner itself. It has the keys behind `low`, up to its own."""

    ticket: int
    owner: Peer
    low: int
    hops: int = 0


class FindPlace(Message, frozen=True, tag=196):
    """A host that joins: passed on until it is at the one behind which `origin` belongs."""

    ticket: int
    origin: Peer
    hops: int = 0


class RingPlace(Message, frozen=True, tag=197):
    """`predecessor` is the one before you; these were its own successors, and hosts that it knows farther away."""

    ticket: int
    predecessor: Peer
    successors: list[Peer]
    fingers: list[Peer]


class RingPlaceTaken(Message, frozen=True, tag=198):
    """Another host has the same key."""

    ticket: int
    owner: Peer


class AskRing(Message, frozen=True, tag=199):
    ticket: int
    origin: Peer


class RingState(Message, frozen=True, tag=200):
    ticket: int
    predecessor: Peer
    successors: list[Peer]


class Notify(Message, frozen=True, tag=201):
    """The sender takes the receiver for its successor."""

    candidate: Peer


class RingLeave(Message, frozen=True, tag=202):
    """The sender is gone once this is read: what a failure is, without the wait. This was the host before it."""

    predecessor: Peer


class TreeLink(Message, frozen=True, tag=203):
    """The sender takes the receiver for its parent in the tree, or for a child; answered."""

    ticket: int
    origin: Peer
    is_parent: bool


class TreeLinkAnswer(Message, frozen=True, tag=204):
    """Whether the other side takes it for the same."""

    ticket: int
    agrees: bool


class TreeUnlink(Message, frozen=True, tag=205):
    """The sender does not take the receiver for a neighbour in the tree any more."""


class Knock(Message, frozen=True, tag=206):
    """From a driver, not a host: who is there, and can one join the tree of brokers at you? Answered by members."""

    ticket: int
    origin: Peer


class Greeting(Message, frozen=True, tag=207):
    """`is_open`: it is in the tree, and others may join it there. `terms`: what all brokers must have in common."""

    ticket: int
    peer: Peer
    is_open: bool
    terms: dict[str, str]


DoorMessage: TypeAlias = Knock | Greeting

RingMessage: TypeAlias = (
    FindOwner
    | AskHop
    | NextHop
    | KeyOwner
    | FindPlace
    | RingPlace
    | RingPlaceTaken
    | AskRing
    | RingState
    | Notify
    | RingLeave
    | TreeLink
    | TreeLinkAnswer
    | TreeUnlink
)
