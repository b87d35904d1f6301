"""Where brokers and hosts of their copies are, told from neighbour to neighbour through the whole tree.

broker ── LocationReport ───▶ each of its neighbours, which pass on what is new to them
broker ── FallbackBrokers ──▶ each of its clients
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pleach.core.messages.base import Life, Message, NetworkAddress, Node

VIEW_MEMBERS_MAX = 15


class BrokerLocation(msgspec.Struct, frozen=True, array_like=True):
    """The addresses of a broker for clients, other brokers and operators. Of two locations, that of the later term
    counts: by epoch, view, and the start of the process.
    """

    epoch: Life
    view: Life  # 0: it has no standbys
    since: Life  # when its process began
    client: NetworkAddress = ""
    peer: NetworkAddress = ""
    admin: NetworkAddress = ""
    machine: Node = ""  # where it runs
    hosts: Annotated[dict[Node, NetworkAddress], msgspec.Meta(max_length=VIEW_MEMBERS_MAX)] = {}  # who know where it is

    @property
    def term(self) -> tuple[int, int, int]:
        return self.epoch, self.view, self.since


class HostLocation(msgspec.Struct, frozen=True, array_like=True):
    """The process of a machine that may hold copies of brokers; the later one counts."""

    since: Life
    address: NetworkAddress  # for peers
    zone: Node = ""
    client: NetworkAddress = ""  # where clients ask for brokers
    is_leaving: bool = False  # it ends once no broker needs it


class LocationReport(Message, frozen=True, tag=154):
    """What the receiver may not know yet. `hosts`: by machine."""

    brokers: dict[Node, BrokerLocation]
    hosts: dict[Node, HostLocation]


class FallbackBrokers(Message, frozen=True, tag=153):
    """Addresses of other brokers, where a broker's clients ask for it when it is gone."""

    addresses: list[NetworkAddress]
