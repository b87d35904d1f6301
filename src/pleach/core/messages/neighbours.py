"""What brokers of a network that heals tell their neighbours, so that these can take care of their place (live/).

broker ── Kin ──▶ each of its neighbours
broker ── Refuge ──▶ each of its clients
"""

from __future__ import annotations

import msgspec

from pleach.core.messages.base import Message, Node


class NeighbourAddress(msgspec.Struct, frozen=True, array_like=True):
    """Where clients, other brokers and operators find a broker."""

    client: str = ""
    peer: str = ""
    admin: str = ""


class StandInAddress(msgspec.Struct, frozen=True, array_like=True):
    """A broker is a stand-in, in this life, and clients find it here."""

    epoch: int
    client: str


class NeighbourReport(Message, frozen=True, tag=152):
    """Who the sender's neighbours are, with where each is found, and which of them is towards the root, if any.

    `beyond`: per neighbour, where the operators of those behind it go, as they know of its stand-in, should it die too.
    `stands`: all stand-ins that the sender has heard of, so that every broker can tell their clients where they are.
    """

    own: NeighbourAddress
    neighbours: dict[Node, NeighbourAddress]
    parent: Node
    beyond: dict[Node, list[str]]
    stands: dict[Node, StandInAddress]

    @property
    def is_complete(self) -> bool:
        """Of every neighbour it is known where it is: without that a stand-in could not call them together."""
        return bool(self.neighbours) and all(place.peer for place in self.neighbours.values())


class FallbackBrokers(Message, frozen=True, tag=153):
    """Where a client may ask for its broker, should that one die: at the broker's neighbours."""

    addresses: list[str]
