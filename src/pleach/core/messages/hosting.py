"""Operators' requests about components that a broker hosts (hosting/). They move as any client (movement.py)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.filter import Filter
from pleach.core.messages.base import Integer, Message, Node


class RequestHost(Message, frozen=True, tag=60):
    """Start a component here. `incarnation`: tells its events from those of an earlier one of its name."""

    operation: str
    component: Node
    kind: str
    subscribe: list[Filter] = msgspec.field(default_factory=list)
    advertise: list[Filter] = msgspec.field(default_factory=list)
    incarnation: Integer = 0


class RequestUnhost(Message, frozen=True, tag=61):
    """End a component here, with all its subscriptions and advertisements."""

    operation: str
    component: Node


HostingRequest: TypeAlias = RequestHost | RequestUnhost
