"""The routing layer as plain data: for a broker's disk, for the explorer's hash, for crash tests and corruptions."""

from __future__ import annotations

import msgspec

from pleach.core.messages import Node
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Need, Ticket


class PropagationState(msgspec.Struct, frozen=True, array_like=True):
    """All that a `Propagation` cannot compute anew, as plain sorted data."""

    received: dict[Node, list[Entry]]
    installs: dict[Node, int]
    unanswered: dict[Node, list[int]]
    waits: list[tuple[Ticket, list[Need]]]
    suspended: dict[Node, list[Entry]]  # what a suspended link was told: this does not follow from what was received
    stale: dict[Node, list[Entry]] = {}  # of what was received: not renewed since the last tick (leases)
    settles: dict[Node, list[int]] = {}  # of what is unanswered: it stands for all before it
    doubted: dict[Node, list[Node]] = {}  # ways behind neighbours on which links are about to change


class RouterState(msgspec.Struct, frozen=True, array_like=True):
    parent: Node | None
    neighbours: list[Node]
    subscriptions: PropagationState
    advertisements: PropagationState
    rounds: dict[Node, bool] = {}  # of renewals, since the last tick: whether they are whole (leases)
