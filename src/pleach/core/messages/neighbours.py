"""Reports of brokers in a network that heals: what neighbours and clients need when the broker fails (server/healing/).

broker ── NeighbourReport ──▶ each of its neighbours
broker ── FallbackBrokers ──▶ each of its clients
"""

from __future__ import annotations

import msgspec

from pleach.core.messages.base import Life, Message, NetworkAddress, Node


class NeighbourAddress(msgspec.Struct, frozen=True, array_like=True):
    """A broker's addresses for clients, other brokers and operators."""

    client: NetworkAddress = ""
    peer: NetworkAddress = ""
    admin: NetworkAddress = ""


class StandInAddress(msgspec.Struct, frozen=True, array_like=True):
    """A broker that is a stand-in: its epoch, and its address for clients."""

    epoch: Life
    client: NetworkAddress


class NeighbourReport(Message, frozen=True, tag=152):
    """The sender's addresses and its neighbours'. `parent`: the neighbour towards the root, if any.

    `beyond`: per neighbour, the operators' addresses of the brokers behind it, which know its stand-in if it fails too.
    `stands`: all stand-ins that the sender knows, so that every broker can send their clients there.
    """

    own: NeighbourAddress
    neighbours: dict[Node, NeighbourAddress]
    parent: Node
    beyond: dict[Node, list[NetworkAddress]]
    stands: dict[Node, StandInAddress]

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour's address is known: a stand-in needs all of them."""
        return bool(self.neighbours) and all(place.peer for place in self.neighbours.values())


class FallbackBrokers(Message, frozen=True, tag=153):
    """Addresses of the broker's neighbours, where its clients ask for it after it has failed."""

    addresses: list[NetworkAddress]
