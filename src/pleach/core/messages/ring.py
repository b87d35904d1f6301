"""Messages of the ring of brokers (Chord) and the tree that it maintains (S3); see docs/protocols/ring.md.

They go between any two hosts, not only between neighbours in the tree, and may be lost: a request is repeated until an
answer with its ticket arrives.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.messages.base import Integer, Message, NetworkAddress, Node


class Peer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A host of the ring: its key, name and address."""

    key: int
    name: Node
    address: NetworkAddress = ""


class FindOwner(Message, frozen=True, tag=192):
    """Forwarded from host to host to the owner of `key`, which answers `origin`.

    `is_last`: the sender takes the receiver for the owner; if it is not, the owner is one of its predecessors.
    """

    key: int
    ticket: int
    origin: Peer
    hops: int = 0
    is_last: bool = False


class AskHop(Message, frozen=True, tag=193):
    """Asks for the next hop towards the owner of `key`, other than those in `avoid`, which did not answer."""

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
    """From the owner itself: it owns the keys after `low`, up to its own."""

    ticket: int
    owner: Peer
    low: int
    hops: int = 0


class FindPlace(Message, frozen=True, tag=196):
    """From a host that joins: forwarded to the host that becomes the predecessor of `origin`."""

    ticket: int
    origin: Peer
    hops: int = 0


class RingPlace(Message, frozen=True, tag=197):
    """The answer: the receiver's predecessor, with that host's successors and fingers."""

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
    """The sender has left: treat it as failed, without a time-out. `predecessor`: the host before it."""

    predecessor: Peer


class TreeLink(Message, frozen=True, tag=203):
    """The sender takes the receiver for its parent in the tree (`is_parent`), or for a child; answered."""

    ticket: int
    origin: Peer
    is_parent: bool


class TreeLinkAnswer(Message, frozen=True, tag=204):
    """Whether the other side agrees."""

    ticket: int
    agrees: bool


class TreeUnlink(Message, frozen=True, tag=205):
    """The sender no longer takes the receiver for a neighbour in the tree."""


class Knock(Message, frozen=True, tag=206):
    """From a driver, not a host: asks who is there, and whether one can join the tree there. Members answer."""

    ticket: int
    origin: Peer


class Greeting(Message, frozen=True, tag=207):
    """The answer. `is_open`: brokers may join the tree there. `terms`: settings that all brokers must share.

    `neighbours`: how many the broker has in the tree.
    """

    ticket: int
    peer: Peer
    is_open: bool
    terms: dict[str, str]
    neighbours: Integer = 0


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
