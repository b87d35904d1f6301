"""The state of the routing layer as plain data: for the disk, the explorer's hash, crash tests and fault injection."""

from __future__ import annotations

import msgspec

from pleach.core.messages import Node
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Need, Ticket


class PropagationState(msgspec.Struct, frozen=True, array_like=True):
    """The part of a `Propagation` that cannot be recomputed, sorted."""

    received: dict[Node, list[Entry]]
    installs: dict[Node, int]
    unanswered: dict[Node, list[int]]
    waits: list[tuple[Ticket, list[Need]]]
    suspended: dict[Node, list[Entry]]  # told over a suspended link: does not follow from what was received
    stale: dict[Node, list[Entry]] = {}  # received entries that were not renewed since the last tick (leases)
    settles: dict[Node, list[int]] = {}  # unanswered numbers whose answer stands for all before
    doubted: dict[Node, list[Node]] = {}  # paths behind neighbours on which links are about to change


class RouterState(msgspec.Struct, frozen=True, array_like=True):
    parent: Node | None
    neighbours: list[Node]
    subscriptions: PropagationState
    advertisements: PropagationState
    rounds: dict[Node, bool] = {}  # renewal rounds since the last tick, and whether they are complete (leases)
