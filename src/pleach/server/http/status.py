"""The contents of /status, /glance, /readyz and /metrics, without any HTTP.

/status is everything, and grows with clients and subscriptions. /glance is for programs that ask again and again: what
changes, bounded in size; its names mean the same. Features add their own fields and gauges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import islice

from pleach.core.messages import Layer, Node, asked_name
from pleach.net.connection import Connection
from pleach.operate.operation import OpenStatus, OperationStep
from pleach.server.feature import Feature
from pleach.server.http.caller import Caller
from pleach.server.http.components import components_of
from pleach.server.leaving import Leaving
from pleach.server.metrics import MetricSample
from pleach.server.node import BrokerNode

SUBSCRIPTIONS_SHOWN_MAX = 100  # of one client, in /status
CLIENTS_SHOWN_MAX = 200  # in /glance, as the following ones
OPERATIONS_SHOWN_MAX = 32
STEPS_SHOWN_MAX = 128
STEP_SECONDS_SHOWN_MAX = 120.0  # older ones were in earlier answers
NETWORK = Caller("", frozenset())  # an operator of the whole network
OF_THE_MACHINE = ("holds", "runs")
OF_THE_BROKER = frozenset(
    {
        "name",
        "zone",
        "addresses",
        "durable",
        "ready",
        "reasons",
        "ordering",
        "exchange",
        "operation",
        "held",
        "counters",
        "epoch",
        "routing",
        "neighbours",
        "ring",
        "standby",
        "outbox_bytes",
    }
)


def unready(node: BrokerNode) -> list[str]:
    """Why this broker is not ready; empty if it is."""
    down = [f"no link to {n}" for n in sorted(node.broker.router.neighbours) if not node.links.is_up(n)]
    return [*down, *filter(None, (reason() for reason in node.features.hooks(Feature.unready)))]


def told_to(caller: Caller, told: Mapping[str, object]) -> dict[str, object]:
    """What of /status or /glance an operator is told: one of a tenant, what is of the broker, and of its tenant.

    Operations and steps name clients in their texts. Fields that are not listed are not told: a new one may name some.
    """
    if caller.is_of_network:
        return dict(told)
    kept = {key: value for key, value in told.items() if key in OF_THE_BROKER}
    clients, components = (
        {name: value for name, value in found.items() if caller.sees(name)} if isinstance(found, dict) else {}
        for found in (told.get("clients"), told.get("components"))
    )
    return {
        **kept,
        "clients": clients,
        "clients_count": len(clients),
        "components": components,
        "operations": [],
        "steps": [],
    }


def status(node: BrokerNode, caller: Caller = NETWORK) -> dict[str, object]:
    router, addresses = node.broker.router, node.directory.to_dial()
    return {
        **_common(node),
        "epoch": node.endpoint.epoch,
        "routing": {
            "policy": router.config.policy,
            "hierarchical": router.config.hierarchical,
            "advertisements": router.config.advertisements,
            "merge_bound": router.config.merge_bound,
            "parent": router.parent,
        },
        "leases": None,
        "neighbours": {n: _neighbour(node, n, addresses.get(n, "")) for n in sorted(router.neighbours)},
        "clients": {client: _client(node, client) for client in _seen(node, caller)},
        "components": components_of(node.broker),
        "remote_entries": router.remote_entries(),
        **_of_features(node),
    }


def glance(node: BrokerNode, caller: Caller = NETWORK) -> dict[str, object]:
    clients, leaving, features = _seen(node, caller), node.features[Leaving], _of_features(node)
    return {
        **_common(node),
        "routing": {"hierarchical": node.broker.router.config.hierarchical},
        "neighbours": {n: _traffic(node, n) for n in sorted(node.broker.router.neighbours)},
        "leaving": {"waits_for": leaving.waits_for[:CLIENTS_SHOWN_MAX], "has_left": leaving.has_left},
        "clients": {client: _brief(node, client) for client in islice(clients, CLIENTS_SHOWN_MAX)},
        "clients_count": len(clients),
        "operations": node.operations.recent[:OPERATIONS_SHOWN_MAX],
        "steps": _steps(node),
        "outbox_bytes": features["outbox_bytes"],
        "ring": features.get("ring"),
        "standby": _standby(features.get("standby")),
    }


def gauges(node: BrokerNode) -> dict[str, Sequence[MetricSample]]:
    """Samples by the name of their gauge."""
    neighbours, clients, links = sorted(node.broker.router.neighbours), node.broker.sessions.clients, node.links
    queued = {peer: session.unconfirmed for peer, session in node.endpoint.sessions.items()}
    values = {
        "pleach_ready": int(not unready(node)),
        "pleach_client_queue_messages": sum(queued.get(client, 0) for client in clients),
        "pleach_clients": len(clients),
        "pleach_clients_up": sum(map(links.is_up, clients)),
        "pleach_sessions": len(queued),
        "pleach_names": node.broker.sessions.names,
        "pleach_held_messages": node.broker.seam.held_count,
        "pleach_remote_entries": node.broker.router.remote_entries(),
    }
    found: dict[str, Sequence[MetricSample]] = {name: [MetricSample(value)] for name, value in values.items()}
    found["pleach_link_up"] = [MetricSample(int(links.is_up(n)), n) for n in neighbours]
    found["pleach_link_queue_messages"] = [MetricSample(queued.get(n, 0), n) for n in neighbours]
    for of_feature in node.features.hooks(Feature.gauges):
        found |= of_feature()
    return found


def _seen(node: BrokerNode, caller: Caller) -> Sequence[Node]:
    return [client for client in node.broker.sessions.clients if caller.sees(client)]


def _standby(told: object) -> dict[str, object] | None:
    """Of this broker's view; what its machine holds of others is not bounded by this broker."""
    return {key: value for key, value in told.items() if key not in OF_THE_MACHINE} if isinstance(told, dict) else None


def _common(node: BrokerNode) -> dict[str, object]:
    reasons = unready(node)
    return {
        "name": node.broker.name,
        "zone": node.settings.zone,
        "addresses": node.directory.places,
        "durable": node.committer.is_durable,
        "ready": not reasons,
        "reasons": reasons,
        "ring": None,
        "ordering": node.settings.ordering,
        "exchange": node.settings.exchange,
        "operation": asked_name(node.broker.operation),
        "open_operations": _opened(node),
        "held": node.broker.seam.held_count,
        "counters": node.counters.flat(),
    }


def _opened(node: BrokerNode) -> list[OpenStatus]:
    return node.operations.opened(node.broker.open_operations[:OPERATIONS_SHOWN_MAX], node.links.is_up)


def _of_features(node: BrokerNode) -> dict[str, object]:
    return {field: value for of_feature in node.features.hooks(Feature.status) for field, value in of_feature().items()}


def _link(node: BrokerNode, peer: Node) -> dict[str, object]:
    session = node.endpoint.sessions.get(peer)
    return {
        "up": node.links.is_up(peer),
        "epoch": session.peer_epoch if session else 0,
        "sent": session.last if session else 0,
        "queued": session.unconfirmed if session else 0,
        "queued_bytes": session.outbox_bytes if session else 0,
    }


def _neighbour(node: BrokerNode, peer: Node, address: str) -> dict[str, object]:
    entries = len(node.broker.router.received_from(Layer.SUBSCRIPTIONS, peer))
    told = {"address": address, "admin": node.directory.admins.get(peer, ""), "relay": node.links.relay_of(peer)}
    return {**_link(node, peer), **told, "entries": entries}


def _client(node: BrokerNode, client: Node) -> dict[str, object]:
    wanted = sorted(node.broker.sessions.subscriptions(client).items())
    shown = {name: filter_.text for name, filter_ in wanted[:SUBSCRIPTIONS_SHOWN_MAX]}
    return {**_link(node, client), "subscriptions": shown, "subscriptions_count": len(wanted)}


def _brief_link(node: BrokerNode, peer: Node) -> dict[str, object]:
    link = _link(node, peer)
    return {field: link[field] for field in ("up", "queued")}


def _traffic(node: BrokerNode, peer: Node) -> dict[str, object]:
    link = node.links.get(peer)
    wire = link.wire if link is not None and isinstance(link.wire, Connection) else None
    return {
        **_brief_link(node, peer),
        "admin": node.directory.admins.get(peer, ""),
        "relay": node.links.relay_of(peer),
        "bytes_out": wire.statistics.bytes_sent if wire else 0,
        "frames_out": wire.statistics.frames_sent if wire else 0,
        "round_trip": wire.round_trip if wire else None,
    }


def _brief(node: BrokerNode, client: Node) -> dict[str, object]:
    return {**_brief_link(node, client), "subscriptions_count": len(node.broker.sessions.subscriptions(client))}


def _steps(node: BrokerNode) -> list[OperationStep]:
    since = time.time() - STEP_SECONDS_SHOWN_MAX
    return [step for step in node.operations.steps if step.at >= since][-STEPS_SHOWN_MAX:]
