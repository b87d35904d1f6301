"""Reports of brokers: what neighbours and clients need when the broker fails (server/neighbour_reports.py).

broker ── NeighbourReport ──▶ each of its neighbours
broker ── FallbackBrokers ──▶ each of its clients
"""

from __future__ import annotations

import msgspec

from pleach.core.messages.base import Message, NetworkAddress, Node


class NeighbourAddress(msgspec.Struct, frozen=True, array_like=True):
    """A broker's addresses for clients, other brokers and operators."""

    client: NetworkAddress = ""
    peer: NetworkAddress = ""
    admin: NetworkAddress = ""


class NeighbourReport(Message, frozen=True, tag=152):
    """The sender's addresses and its neighbours'."""

    own: NeighbourAddress
    neighbours: dict[Node, NeighbourAddress]


class FallbackBrokers(Message, frozen=True, tag=153):
    """Addresses of the broker's neighbours, where its clients ask for it after it has failed."""

    addresses: list[NetworkAddress]
