"""Counters and gauges of a broker, and their Prometheus text format.

The metrics are few, and the text format has three rules: no library is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, get_type_hints

import msgspec

from pleach.net.printable import printable

# Counters, since the process started, each with its help text: one group per subject. Names are unique among all.


class EventCounters(msgspec.Struct):
    publishes: Annotated[int, "Events that clients published and the broker accepted."] = 0
    refused: Annotated[int, "Events that clients published and the broker refused."] = 0
    deliveries: Annotated[int, "Events queued for clients."] = 0
    matches: Annotated[int, "Events that were matched and routed."] = 0
    match_seconds: Annotated[float, "Time spent matching and routing."] = 0.0


class ClientCounters(msgspec.Struct):
    evicted: Annotated[int, "Clients that were expelled because they took their events too slowly."] = 0
    expired: Annotated[int, "Clients that were forgotten because they were away for too long."] = 0
    forgotten: Annotated[
        int, "Absent clients without subscriptions that were forgotten because they were too many."
    ] = 0
    names_refused: Annotated[int, "Subscriptions and advertisements that were refused because a limit was reached."] = 0
    tls_refused: Annotated[int, "Connections that were refused for their TLS or their certificate."] = 0
    read_confirmed: Annotated[int, "Payloads for clients that readers confirmed in their place."] = 0
    strangers_closed: Annotated[int, "Connections that were refused or ended for what they sent, or did not send."] = 0


class DoorCounters(msgspec.Struct):
    denied: Annotated[int, "Log-ins and connections that the access file did not allow."] = 0
    slowed: Annotated[int, "Times that a client was not read from since its principal published too fast."] = 0
    reloads_refused: Annotated[int, "Access files that were not taken over, since something was wrong with them."] = 0


class LeaseCounters(msgspec.Struct):
    renewals_sent: Annotated[int, "Entries that were sent to neighbours again, to renew their leases."] = 0
    renewals_received: Annotated[int, "Entries that neighbours and clients sent again, to renew their leases."] = 0
    lease_expired: Annotated[int, "Entries that expired although the peers that they came from are connected."] = 0
    lease_restored: Annotated[int, "Entries that a renewal restored: they were missing, and should not have been."] = 0


class RebuildCounters(msgspec.Struct):
    rebuild_rounds: Annotated[int, "Rounds in which this broker emptied a table and built it anew."] = 0
    rebuild_missing: Annotated[int, "Entries that a table lacked, compared with the other one when complete."] = 0
    rebuild_extra: Annotated[int, "Entries that a table had and should not have had, compared with the other one."] = 0
    rebuild_vouched: Annotated[int, "Times that this broker answered for a client that was away, or late."] = 0
    rebuild_musters: Annotated[int, "Times that the root asked who is late in a round, as received here."] = 0


class ImproveCounters(msgspec.Struct):
    improve_bulletins: Annotated[int, "Bulletins that this broker sent, for others to find better links."] = 0
    improve_motions: Annotated[int, "Links that this broker proposed."] = 0
    improve_decisions: Annotated[int, "Exchanges of a link that this broker decided for, in a dry run, too."] = 0
    improve_changes: Annotated[int, "Changes of the tree that this broker took part in, where brokers improve it."] = 0


class RelayCounters(msgspec.Struct):
    tunnels_opened: Annotated[int, "Connections between other brokers that this one passed on."] = 0
    tunnels_refused: Annotated[int, "Tunnels refused: limits, or unknown brokers."] = 0
    tunnel_bytes: Annotated[int, "Bytes carried by tunnels that have ended."] = 0
    relayed_connections: Annotated[int, "Connections to neighbours that this broker made through a relay."] = 0
    relayed_replaced: Annotated[int, "Relayed links that this broker had exchanged for ones that work."] = 0
    relayed_returns: Annotated[int, "Links of this broker that went back from a relay to the direct way."] = 0


class DiskCounters(msgspec.Struct):
    commits: Annotated[int, "Commits to the data directory."] = 0
    commit_seconds: Annotated[float, "Time spent in commits."] = 0.0
    snapshots: Annotated[int, "Snapshots that replaced the journal."] = 0


class FrameCounters(msgspec.Struct):
    frames_in: Annotated[int, "Frames received."] = 0
    frames_out: Annotated[int, "Frames sent."] = 0
    bytes_in: Annotated[int, "Bytes received."] = 0
    bytes_out: Annotated[int, "Bytes sent."] = 0


class DatagramCounters(msgspec.Struct):
    datagrams_in: Annotated[int, "Messages of the ring received."] = 0
    datagrams_out: Annotated[int, "Messages of the ring sent."] = 0
    datagrams_ignored: Annotated[
        int, "Datagrams that were malformed, not for this broker, or named impossible hosts."
    ] = 0


class Counters:
    def __init__(self) -> None:
        self.events = EventCounters()
        self.clients = ClientCounters()
        self.door = DoorCounters()
        self.leases = LeaseCounters()
        self.rebuilds = RebuildCounters()
        self.improve = ImproveCounters()
        self.relay = RelayCounters()
        self.disk = DiskCounters()
        self.frames = FrameCounters()
        self.datagrams = DatagramCounters()

    def flat(self) -> dict[str, float]:
        """All counters by name."""
        return {name: value for group in vars(self).values() for name, value in msgspec.structs.asdict(group).items()}


COUNTER_HELP = {
    field.name: str(hint.__metadata__[0])
    for group in vars(Counters()).values()
    for field, hint in zip(
        msgspec.structs.fields(group), get_type_hints(type(group), include_extras=True).values(), strict=True
    )
}


class MetricSample(NamedTuple):
    value: float
    whose: str = ""  # the value of the metric's label, where it has one


class Gauge(NamedTuple):
    help: str
    label: str = ""  # what its samples are told apart by; empty: there is one at most
    default: Sequence[MetricSample] = ()  # where no feature reports it


GAUGES = {
    "pleach_principals": Gauge("Principals in the access file."),
    "pleach_ready": Gauge("Whether all neighbours are up and the store takes data."),
    "pleach_link_up": Gauge("Whether the link to a neighbour is up.", "neighbour"),
    "pleach_link_refused": Gauge(
        "Neighbours that are refused, or refuse this broker: an operator has to act.", "neighbour"
    ),
    "pleach_link_relayed": Gauge("Whether the link to a neighbour goes through a relay.", "neighbour"),
    "pleach_tunnels": Gauge("Connections between other brokers that this one passes on."),
    "pleach_link_queue_messages": Gauge("Messages that a neighbour has not confirmed.", "neighbour"),
    "pleach_client_queue_messages": Gauge("Messages not confirmed by clients."),
    "pleach_clients": Gauge("Clients that are attached."),
    "pleach_clients_up": Gauge("Clients that are connected."),
    "pleach_sessions": Gauge("Peers that this broker keeps a session for."),
    "pleach_names": Gauge("Subscriptions and advertisements of all clients."),
    "pleach_outbox_bytes": Gauge("Bytes that wait to be confirmed."),
    "pleach_held_messages": Gauge("Messages that a reconfiguration holds."),
    "pleach_remote_entries": Gauge("Subscriptions held for neighbours."),
    "pleach_lease_away": Gauge("Peers that are away: their entries do not expire.", default=(MetricSample(0),)),
    "pleach_rebuild_last_round_seconds": Gauge("How long ago the last round began."),
    "pleach_standby_view": Gauge("The number of the view whose primary this broker is."),
    "pleach_standby_copies": Gauge("Copies of the data directory that follow, this broker's own among them."),
    "pleach_standby_covered": Gauge("Whether all copies and votes are there that are wanted, and the copies follow."),
    "pleach_standby_majority": Gauge("Whether a majority of the view answers, so that others can be chosen."),
    "pleach_standby_waiting_seconds": Gauge("How long the oldest commit waits that is not at every copy."),
    "pleach_standby_behind_records": Gauge("Commits that a copy does not have yet.", "machine"),
    "pleach_standby_behind_bytes": Gauge("Bytes of the commits that a copy does not have yet.", "machine"),
    "pleach_certificate_expiry_days": Gauge("Days until the broker's own certificate expires."),
    "pleach_improve_reach_milliseconds": Gauge("Measured delay to a broker, one way.", "broker"),
}


def render(gauges: Mapping[str, Sequence[MetricSample]], counters: Counters) -> str:
    """All metrics as Prometheus reads them."""
    return "\n".join((*_gauge_lines(gauges), *_counter_lines(counters))) + "\n"


def _gauge_lines(gauges: Mapping[str, Sequence[MetricSample]]) -> Iterator[str]:
    for name, (text, label, default) in GAUGES.items():
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{_labelled(label, each.whose)} {each.value!r}" for each in gauges.get(name, default))


def _counter_lines(counters: Counters) -> Iterator[str]:
    for field, value in counters.flat().items():
        name = f"pleach_{field}_total"
        yield f"# HELP {name} {COUNTER_HELP[field]}"
        yield f"# TYPE {name} counter"
        yield f"{name} {value!r}"


def _labelled(label: str, value: str) -> str:
    return f'{{{label}="{_escaped(value)}"}}' if label else ""


def _escaped(value: str) -> str:
    """The format knows three escapes; other control characters are spelled out, as in logs."""
    return printable(value, keep="\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
