"""What a broker counts, and the Prometheus text format of it.

Few metrics, written by hand: a text format of three rules needs no dependency.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec


class Counters(msgspec.Struct):
    """Since the process started."""

    publishes: int = 0
    refused: int = 0
    deliveries: int = 0
    matches: int = 0
    match_seconds: float = 0.0
    evicted: int = 0
    expired: int = 0
    forgotten: int = 0
    names_refused: int = 0
    strangers_closed: int = 0
    renewals_sent: int = 0
    renewals_received: int = 0
    lease_expired: int = 0
    lease_restored: int = 0
    rebuild_rounds: int = 0
    rebuild_missing: int = 0
    rebuild_extra: int = 0
    rebuild_vouched: int = 0
    rebuild_musters: int = 0
    stand_ins_started: int = 0
    bereavements: int = 0
    improve_bulletins: int = 0
    improve_motions: int = 0
    improve_decisions: int = 0
    improve_changes: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    snapshots: int = 0
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    datagrams_in: int = 0
    datagrams_out: int = 0
    datagrams_ignored: int = 0


class MetricSample(NamedTuple):
    value: float
    whose: str = ""  # the value of the metric's label, where it has one


class Metric(NamedTuple):
    name: str
    kind: str  # counter or gauge
    help: str
    samples: Sequence[MetricSample]
    label: str = ""  # what its samples are told apart by; empty: there is one at most


COUNTER_HELP = {
    "publishes": "Events that clients published and the broker took over.",
    "refused": "Events that clients published and the broker refused.",
    "deliveries": "Events queued for clients.",
    "matches": "Events that were matched and routed.",
    "match_seconds": "Time spent matching and routing.",
    "evicted": "Clients that were sent away because they took their events too slowly.",
    "expired": "Clients that were forgotten since they were away for too long.",
    "forgotten": "Absent clients that were forgotten since they had asked for nothing and were too many.",
    "names_refused": "Subscriptions and advertisements that were refused for want of room.",
    "strangers_closed": "Connections that were refused or ended for what they sent, or did not send.",
    "renewals_sent": "Entries that neighbours were told again, for their leases.",
    "renewals_received": "Entries that neighbours and clients have asked for again, for their leases.",
    "lease_expired": "Entries that a tick took away, although those whom they came from are connected.",
    "lease_restored": "Entries that a renewal brought back: they were missing, and should not have been.",
    "rebuild_rounds": "Rounds in which this broker has emptied a table and built it anew.",
    "rebuild_missing": "Entries that a table lacked, as the other one showed once it was complete.",
    "rebuild_extra": "Entries that a table had and should not have had, as the other one showed.",
    "rebuild_vouched": "Times that this broker spoke for a client that was away, or late, in a round.",
    "rebuild_musters": "Times that the root asked who is late in a round, as this broker heard.",
    "stand_ins_started": "Neighbours that were dead for good and got a stand-in from this broker.",
    "bereavements": "Neighbours of which this broker has testified to a stand-in.",
    "improve_bulletins": "Bulletins of this broker, for others to find better links.",
    "improve_motions": "Links that this broker has moved for.",
    "improve_decisions": "Exchanges of a link that this broker has decided for, in a dry run, too.",
    "improve_changes": "Changes of the tree that this broker took part in, where it improves it.",
    "commits": "Commits to the data directory.",
    "commit_seconds": "Time spent in commits.",
    "snapshots": "Snapshots that replaced the journal.",
    "frames_in": "Frames received.",
    "frames_out": "Frames sent.",
    "bytes_in": "Bytes received.",
    "bytes_out": "Bytes sent.",
    "datagrams_in": "Messages of the ring received.",
    "datagrams_out": "Messages of the ring sent.",
    "datagrams_ignored": "Datagrams that were none, or not for this broker, or told of hosts that cannot be.",
}


def counted(counters: Counters) -> list[Metric]:
    return [
        Metric(f"pleach_{field}_total", "counter", text, [MetricSample(getattr(counters, field))])
        for field, text in COUNTER_HELP.items()
    ]


def render(metrics: Iterable[Metric]) -> str:
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_labelled(metric.label, each.whose)} {each.value!r}" for each in metric.samples]
    return "\n".join(lines) + "\n"


def _labelled(label: str, value: str) -> str:
    return f'{{{label}="{_escaped(value)}"}}' if label else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
