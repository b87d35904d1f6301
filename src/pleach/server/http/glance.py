"""What a broker tells whoever looks at it again and again (/glance): all that moves, and bounded in size.

/status has more, and grows with clients and subscriptions; its names mean the same.
"""

from __future__ import annotations

import time
from itertools import islice

from pleach.core.messages import Node
from pleach.net.connection import Connection
from pleach.operate.operation import OperationStep, asked_name
from pleach.server.http.status import healing, unready
from pleach.server.node import BrokerNode

CLIENTS_SHOWN_MAX = 200
OPERATIONS_SHOWN_MAX = 32
STEPS_SHOWN_MAX = 128
STEP_SECONDS_SHOWN_MAX = 120.0  # whoever looks has seen older ones


def glance(node: BrokerNode) -> dict[str, object]:
    clients = node.broker.sessions.clients
    return {
        "name": node.name,
        "zone": node.settings.zone,
        "addresses": node.directory.places,
        "durable": node.is_durable,
        "ready": not unready(node),
        "reasons": unready(node),
        "routing": {"hierarchical": node.broker.router.config.hierarchical},
        "heal": healing(node),
        "ordering": node.settings.ordering,
        "exchange": node.settings.exchange,
        "neighbours": {n: _neighbour(node, n) for n in sorted(node.broker.router.neighbours)},
        "operation": asked_name(node.broker.operation),
        "ring": node.ring.seat if node.ring else None,
        "leaving": {"waits_for": node.leaving.waits_for[:CLIENTS_SHOWN_MAX], "has_left": node.leaving.has_left},
        "clients": {client: _client(node, client) for client in islice(clients, CLIENTS_SHOWN_MAX)},
        "clients_count": len(clients),
        "outbox_bytes": node.pressure.outbox_bytes,
        "held": node.broker.seam.held_count,
        "counters": node.counters,
        "operations": node.operations.recent[:OPERATIONS_SHOWN_MAX],
        "steps": _steps(node),
    }


def _link(node: BrokerNode, peer: Node) -> dict[str, object]:
    session = node.endpoint.sessions.get(peer)
    return {"up": node.is_up(peer), "queued": session.unconfirmed if session else 0}


def _neighbour(node: BrokerNode, peer: Node) -> dict[str, object]:
    link = node.links.get(peer)
    wire = link.wire if link is not None and isinstance(link.wire, Connection) else None
    return {
        **_link(node, peer),
        "admin": node.directory.admins.get(peer, ""),
        "bytes_out": wire.statistics.bytes_sent if wire else 0,
        "frames_out": wire.statistics.frames_sent if wire else 0,
        "round_trip": wire.round_trip if wire else None,
    }


def _client(node: BrokerNode, client: Node) -> dict[str, object]:
    return {**_link(node, client), "subscriptions_count": len(node.broker.sessions.subscriptions(client))}


def _steps(node: BrokerNode) -> list[OperationStep]:
    since = time.time() - STEP_SECONDS_SHOWN_MAX
    return [step for step in node.operations.steps if step.at >= since][-STEPS_SHOWN_MAX:]
