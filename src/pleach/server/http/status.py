"""What a broker tells about itself: /status, /readyz and /metrics are made here, from a node, without any HTTP."""

from __future__ import annotations

from pleach.core.messages import Layer, Node
from pleach.operate.operation import asked_name
from pleach.server.http.components import components_of
from pleach.server.metrics import Metric, MetricSample, counted
from pleach.server.node import BrokerNode
from pleach.server.rebuild_metrics import seconds_since_round, two_roots
from pleach.server.stabilise_settings import mends_within

SUBSCRIPTIONS_SHOWN_MAX = 100  # of one client


def unready(node: BrokerNode) -> list[str]:
    """Why this broker is not ready; empty if it is."""
    down = [f"no link to {n}" for n in sorted(node.broker.router.neighbours) if not node.is_up(n)]
    outside = "not in the tree yet" if node.ring is not None and node.ring.is_outside else ""
    return [*down, *filter(None, (node.gate.closed, node.complaint, outside))]


def status(node: BrokerNode) -> dict[str, object]:
    router, directory = node.broker.router, node.directory.to_dial()
    clients = node.broker.sessions.clients
    return {
        "name": node.name,
        "zone": node.settings.zone,
        "epoch": node.endpoint.epoch,
        "addresses": node.directory.places,
        "durable": node.is_durable,
        "ready": not unready(node),
        "reasons": unready(node),
        "routing": {
            "policy": router.config.policy,
            "hierarchical": router.config.hierarchical,
            "advertisements": router.config.advertisements,
            "merge_bound": router.config.merge_bound,
            "parent": router.parent,
        },
        "leases": _leases(node),
        "heal": healing(node),
        "ring": node.ring.seat if node.ring else None,
        "ordering": node.settings.ordering,
        "exchange": node.settings.exchange,
        "neighbours": {n: _neighbour(node, n, directory.get(n, "")) for n in sorted(router.neighbours)},
        "operation": asked_name(node.broker.operation),
        "leaving": {"waits_for": node.leaving.waits_for, "has_left": node.leaving.has_left},
        "clients": {client: _client(node, client) for client in clients},
        "components": components_of(node),
        "remote_entries": router.remote_entries(),
        "outbox_bytes": node.pressure.outbox_bytes,
        "held": _held(node),
        "publishers_paused": node.pressure.is_tight,
        "publishes_refused": node.gate.closed,
        "counters": node.counters,
    }


def _leases(node: BrokerNode) -> dict[str, object] | None:
    settings = node.settings.stabilise
    if settings is None:
        return None
    bound = mends_within(settings, node.broker.router.config)
    away = sorted(node.presence.away)
    return {
        "kind": settings.kind,
        "refresh": settings.refresh,
        "period": settings.period,
        "mends_within": bound,
        "away": away,
        "last_round_seconds_ago": seconds_since_round(node.rebuild, node.now),
        "two_roots": two_roots(node.rebuild),
    }


def healing(node: BrokerNode) -> dict[str, object] | None:
    """`stand_in`: what this broker is doing as one; empty where it is none. `hosts`: process ids of those beside it."""
    settings = node.settings.heal
    if settings is None:
        return None
    stands_in = node.neighbour_reports.phase if node.settings.stand_in else ""
    kin = {neighbour: node.neighbour_reports.of(neighbour) for neighbour in node.broker.router.neighbours}
    knows = sorted(neighbour for neighbour, told in kin.items() if told and told.is_complete)
    return {
        "after": settings.after,
        "grace": settings.grace,
        "stand_in": stands_in,
        "hosts": node.guardian.host.hosted,
        "knows_kin_of": knows,
        "cut_off": node.guardian.cut_off,
    }


def _link(node: BrokerNode, peer: Node) -> dict[str, object]:
    session = node.endpoint.sessions.get(peer)
    return {
        "up": node.is_up(peer),
        "epoch": session.peer_epoch if session else 0,
        "sent": session.last if session else 0,
        "queued": session.unconfirmed if session else 0,
        "queued_bytes": session.outbox_bytes if session else 0,
    }


def _neighbour(node: BrokerNode, peer: Node, address: str) -> dict[str, object]:
    entries = len(node.broker.router.received_from(Layer.SUBSCRIPTIONS, peer))
    return {**_link(node, peer), "address": address, "admin": node.directory.admins.get(peer, ""), "entries": entries}


def _client(node: BrokerNode, client: Node) -> dict[str, object]:
    wanted = sorted(node.broker.sessions.subscriptions(client).items())
    shown = {name: filter_.text for name, filter_ in wanted[:SUBSCRIPTIONS_SHOWN_MAX]}
    return {**_link(node, client), "subscriptions": shown, "subscriptions_count": len(wanted)}


def _held(node: BrokerNode) -> int:
    return node.broker.seam.held_count


def metrics(node: BrokerNode) -> list[Metric]:
    neighbours = sorted(node.broker.router.neighbours)
    clients = node.broker.sessions.clients
    sessions = node.endpoint.sessions
    by_link = [(n, sessions.get(n)) for n in neighbours]
    up = [MetricSample(int(node.is_up(n)), n) for n in neighbours]
    depth = [MetricSample(s.unconfirmed if s else 0, n) for n, s in by_link]
    client_depth = sum(sessions[c].unconfirmed for c in clients if c in sessions)
    return [
        Metric("pleach_ready", "gauge", "Whether all neighbours are up and the store takes data.", [_flag(node)]),
        Metric("pleach_link_up", "gauge", "Whether the link to a neighbour is up.", up, label="neighbour"),
        Metric(
            "pleach_link_queue_messages",
            "gauge",
            "Messages that a neighbour has not confirmed.",
            depth,
            label="neighbour",
        ),
        Metric(
            "pleach_client_queue_messages", "gauge", "Messages not confirmed by clients.", [MetricSample(client_depth)]
        ),
        Metric("pleach_clients", "gauge", "Clients that are attached.", [MetricSample(len(clients))]),
        Metric(
            "pleach_clients_up", "gauge", "Clients that are connected.", [MetricSample(sum(map(node.is_up, clients)))]
        ),
        Metric("pleach_sessions", "gauge", "Peers that something is known of.", [MetricSample(len(sessions))]),
        Metric("pleach_names", "gauge", "Subscriptions and advertisements of all clients.", [_names(node)]),
        Metric(
            "pleach_outbox_bytes",
            "gauge",
            "Bytes that wait to be confirmed.",
            [MetricSample(node.pressure.outbox_bytes)],
        ),
        Metric("pleach_held_messages", "gauge", "Messages that a reconfiguration holds.", [MetricSample(_held(node))]),
        Metric(
            "pleach_remote_entries",
            "gauge",
            "Subscriptions held for neighbours.",
            [MetricSample(node.broker.router.remote_entries())],
        ),
        Metric("pleach_lease_away", "gauge", "Peers that are away: nothing of them runs out.", [_away(node)]),
        Metric("pleach_rebuild_last_round_seconds", "gauge", "How long ago the last round began.", _last_round(node)),
        Metric(
            "pleach_improve_reach_milliseconds",
            "gauge",
            "One way to a broker, as it was measured.",
            _reach(node),
            label="broker",
        ),
        *counted(node.counters),
    ]


def _reach(node: BrokerNode) -> list[MetricSample]:
    reached = node.council.reached if node.council else {}
    return [MetricSample(cost, broker) for broker, cost in reached.items()]


def _away(node: BrokerNode) -> MetricSample:
    return MetricSample(len(node.presence.away))


def _last_round(node: BrokerNode) -> list[MetricSample]:
    ago = seconds_since_round(node.rebuild, node.now)
    return [] if ago is None else [MetricSample(ago)]


def _names(node: BrokerNode) -> MetricSample:
    return MetricSample(node.broker.sessions.names)


def _flag(node: BrokerNode) -> MetricSample:
    return MetricSample(int(not unready(node)))
