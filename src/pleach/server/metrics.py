"""Counters and gauges of a broker, and their Prometheus text format.

The metrics are few, and the text format has three rules: no library is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

# Counters, since the process started: one group per subject. Names are unique among all groups.


class EventCounters(msgspec.Struct):
    publishes: int = 0
    refused: int = 0
    deliveries: int = 0
    matches: int = 0
    match_seconds: float = 0.0


class ClientCounters(msgspec.Struct):
    evicted: int = 0
    expired: int = 0
    forgotten: int = 0
    names_refused: int = 0
    strangers_closed: int = 0


class LeaseCounters(msgspec.Struct):
    renewals_sent: int = 0
    renewals_received: int = 0
    lease_expired: int = 0
    lease_restored: int = 0


class RebuildCounters(msgspec.Struct):
    rebuild_rounds: int = 0
    rebuild_missing: int = 0
    rebuild_extra: int = 0
    rebuild_vouched: int = 0
    rebuild_musters: int = 0


class HealCounters(msgspec.Struct):
    stand_ins_started: int = 0
    bereavements: int = 0


class ImproveCounters(msgspec.Struct):
    improve_bulletins: int = 0
    improve_motions: int = 0
    improve_decisions: int = 0
    improve_changes: int = 0


class DiskCounters(msgspec.Struct):
    commits: int = 0
    commit_seconds: float = 0.0
    snapshots: int = 0


class FrameCounters(msgspec.Struct):
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class DatagramCounters(msgspec.Struct):
    datagrams_in: int = 0
    datagrams_out: int = 0
    datagrams_ignored: int = 0


class Counters:
    def __init__(self) -> None:
        self.events = EventCounters()
        self.clients = ClientCounters()
        self.leases = LeaseCounters()
        self.rebuilds = RebuildCounters()
        self.heal = HealCounters()
        self.improve = ImproveCounters()
        self.disk = DiskCounters()
        self.frames = FrameCounters()
        self.datagrams = DatagramCounters()

    def flat(self) -> dict[str, float]:
        """All counters by name, in the order of COUNTER_HELP."""
        return {name: value for group in vars(self).values() for name, value in msgspec.structs.asdict(group).items()}


COUNTER_HELP = {
    "publishes": "Events that clients published and the broker accepted.",
    "refused": "Events that clients published and the broker refused.",
    "deliveries": "Events queued for clients.",
    "matches": "Events that were matched and routed.",
    "match_seconds": "Time spent matching and routing.",
    "evicted": "Clients that were disconnected and detached because they took their events too slowly.",
    "expired": "Clients that were forgotten because they were away for too long.",
    "forgotten": "Absent clients that were forgotten because they had asked for nothing and were too many.",
    "names_refused": "Subscriptions and advertisements that were refused because a limit was reached.",
    "strangers_closed": "Connections that were refused or ended for what they sent, or did not send.",
    "renewals_sent": "Entries that were sent to neighbours again, to renew their leases.",
    "renewals_received": "Entries that neighbours and clients sent again, to renew their leases.",
    "lease_expired": "Entries that expired although the peers that they came from are connected.",
    "lease_restored": "Entries that a renewal brought back: they were missing, and should not have been.",
    "rebuild_rounds": "Rounds in which this broker emptied a table and built it anew.",
    "rebuild_missing": "Entries that a table lacked, compared with the other one once that was complete.",
    "rebuild_extra": "Entries that a table had and should not have had, compared with the other one.",
    "rebuild_vouched": "Times that this broker answered for a client that was away, or late, in a round.",
    "rebuild_musters": "Times that the root asked who is late in a round, as far as this broker received it.",
    "stand_ins_started": "Neighbours that were dead for good and got a stand-in from this broker.",
    "bereavements": "Neighbours of which this broker has testified to a stand-in.",
    "improve_bulletins": "Bulletins that this broker sent, for others to find better links.",
    "improve_motions": "Links that this broker proposed.",
    "improve_decisions": "Exchanges of a link that this broker decided for, in a dry run, too.",
    "improve_changes": "Changes of the tree that this broker took part in, where brokers improve it.",
    "commits": "Commits to the data directory.",
    "commit_seconds": "Time spent in commits.",
    "snapshots": "Snapshots that replaced the journal.",
    "frames_in": "Frames received.",
    "frames_out": "Frames sent.",
    "bytes_in": "Bytes received.",
    "bytes_out": "Bytes sent.",
    "datagrams_in": "Messages of the ring received.",
    "datagrams_out": "Messages of the ring sent.",
    "datagrams_ignored": "Datagrams that were malformed, not for this broker, or named impossible hosts.",
}


class MetricSample(NamedTuple):
    value: float
    whose: str = ""  # the value of the metric's label, where it has one


class Gauge(NamedTuple):
    help: str
    label: str = ""  # what its samples are told apart by; empty: there is one at most
    default: Sequence[MetricSample] = ()  # where no feature reports it


GAUGES = {
    "pleach_ready": Gauge("Whether all neighbours are up and the store takes data."),
    "pleach_link_up": Gauge("Whether the link to a neighbour is up.", "neighbour"),
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
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
