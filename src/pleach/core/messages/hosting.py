"""Components that a broker hosts (hosting/): what an operator wants of them. They move as any client (movement.py)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.filter import Filter
from pleach.core.messages.base import Message, Node


class RequestHost(Message, frozen=True, tag=60):
    """Have a component begin here. `incarnation`: sets its events apart from those of another one that had its name."""

    operation: str
    component: Node
    kind: str
    subscribe: list[Filter] = msgspec.field(default_factory=list)
    advertise: list[Filter] = msgspec.field(default_factory=list)
    incarnation: int = 0


class RequestUnhost(Message, frozen=True, tag=61):
    """Have a component end here, with all that it has."""

    operation: str
    component: Node


HostingRequest: TypeAlias = RequestHost | RequestUnhost
